"""A tool server made with the MCP library: `python notes_server.py [--http PORT]`."""

from __future__ import annotations

import os
import sys

from mcp.server.mcpserver import MCPServer


def notes() -> MCPServer:
    server = MCPServer("notes")

    @server.tool(description="Finds a note.")
    def find(text: str) -> str:
        return f"Found: {text}."

    @server.tool(description="Shows its environment.")
    def environment() -> str:
        return "\n".join(f"{name}={value}" for name, value in os.environ.items())

    @server.tool(description="Says a long text.")
    def recite(length: int) -> str:
        return "x" * length

    @server.tool(description="Fails.")
    def fail() -> str:
        raise ValueError("there is no such note")

    @server.tool(description="Dies.")
    def die() -> str:
        os._exit(3)

    return server


if __name__ == "__main__":
    print("starting with", os.environ.get("NOTES_KEY"), file=sys.stderr, flush=True)
    if "--http" in sys.argv:
        notes().run("streamable-http", port=int(sys.argv[-1]))
    else:
        notes().run("stdio")
