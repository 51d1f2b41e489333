// Not a module, so that the remembered theme is there before anything is painted.
{
    const theme = localStorage.getItem("ollim.theme");
    if (theme === "dark" || theme === "light") {
        document.documentElement.dataset.theme = theme;
    }
}
