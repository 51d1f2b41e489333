"""Documents with fields: reading them strictly, and editing them field by field."""
