"""The grammar of a query, for lark (LALR, contextual lexer), and its terminals in words for messages.

Keywords may be written in any case. Each lexer state knows only the terminals that may come next: after a dot, ``in``
is an attribute name like any other, while variables and types can have such names only in quotes. Conditions and
values share one rule, because a parenthesis opens either of them; the tree is checked later for which one it is.
"""

from __future__ import annotations

from typing import Final

from spillway.core.cep.language.functions import KEYWORDS

GRAMMAR: Final = r"""
start: PATTERN SEQ "(" element ("," element)* ")" [where] WITHIN DURATION [INCLUSIVE] [under]
where: WHERE or
under: UNDER POLICY

?element: step
        | NEG step          -> negated
        | NEG "(" step ")"  -> negated
step: types [PLUS | lengths] NAME [INDEX]
_types: type ("|" type)*
types: _types | "(" _types ")"
type: NAME | QUOTED | STRING
lengths: "{" WHOLE "}"               -> exactly
       | "{" [WHOLE] "," [WHOLE] "}" -> between

?or: and (OR and)+ -> either
   | and
?and: not (AND not)+ -> both
    | not
?not: NOT not -> negation
    | comparison
?comparison: sum (COMPARE sum)+ -> chain
           | sum IN set -> member
           | sum (NOT IN | NOT_IN) set -> stranger
           | sum
set: "{" constant ("," constant)* "}" | "(" constant ("," constant)* ")"
?constant: literal
         | MINUS literal -> minus
?sum: product | sum (PLUS | MINUS) product -> binary
?product: unary | product (TIMES | OVER | MODULO) unary -> binary
?unary: power | MINUS unary -> minus
?power: atom | atom POWER unary -> binary | atom SUPERSCRIPT -> superscript
?atom: literal | reference | call | same | "(" or ")"
literal: NUMBER | STRING | TRUE | FALSE
reference: NAME [INDEX] ["." name]
call: NAME "(" or ("," or)* ")"
same: "[" name ("," name)* "]"
name: WORD | QUOTED

PATTERN: /pattern\b/i
SEQ: /seq\b/i
NEG.2: /(?:neg|not)\b|!/i
WHERE: /where\b/i
WITHIN: /within\b/i
INCLUSIVE: /inclusive\b/i
UNDER: /under\b/i
POLICY: /\w+(?:[-\s]\w+)*/
AND.2: /and\b/i
OR.2: /or\b/i
NOT.2: /not\b/i
IN.2: /in\b|∈/i
NOT_IN: "∉"
TRUE.2: /true\b/i
FALSE.2: /false\b/i
COMPARE: /==|=|!=|<>|<=|>=|<|>|≤|≥|≠/
PLUS: "+"
MINUS: "-"
TIMES: "*"
OVER: "/"
MODULO: "%"
POWER: "^"
SUPERSCRIPT: /[²³]/
WHOLE: /\d+/
NUMBER: /(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?/i
DURATION: /\d+(?:\.\d+)?\s*[a-zµμ]+(?:(?:\s|,)*(?:and\b)?\s*\d+(?:\.\d+)?\s*[a-zµμ]+)*/i
INDEX: /\[[^\]\n]*\]/
NAME: /(?!(?:KEYWORDS)\b)[^\W\d²³][^\W²³]*/i
WORD: /[^\W\d²³][^\W²³]*/
QUOTED: /`[^`\n]+`/
STRING: /'(?:[^'\n]|'')*'|"(?:[^"\n]|"")*"/
COMMENT: /--[^\n]*/
WS: /\s+/
%ignore WS
%ignore COMMENT
""".replace("KEYWORDS", "|".join(KEYWORDS))

# Names of the terminals for users. Terminals that occur together are named as a group.
GROUPS: Final = (
    (
        {"NUMBER", "STRING", "TRUE", "FALSE", "NAME", "MINUS", "NOT", "LPAR", "LSQB"},
        "a condition such as a.v > 3",
    ),
    ({"NUMBER", "STRING", "TRUE", "FALSE", "NAME", "MINUS", "LPAR", "LSQB"}, "a value such as a.v, 3 or 'x'"),
    ({"NUMBER", "STRING", "TRUE", "FALSE", "MINUS"}, "a constant such as 3 or 'x'"),
    ({"NUMBER", "STRING", "TRUE", "FALSE"}, "a constant such as 3 or 'x'"),
    ({"PLUS", "MINUS", "TIMES", "OVER", "MODULO"}, "an operator (+ - * / % ^)"),
    ({"NAME", "QUOTED", "STRING", "LPAR", "NEG"}, "an element such as A a, B+ b[] or NEG C c"),
    ({"NAME", "QUOTED", "STRING", "LPAR"}, "an event type"),
    ({"NAME", "QUOTED", "STRING"}, "an event type"),
    ({"NAME", "PLUS", "LBRACE", "VBAR"}, "a variable, as in A a or B+ b[]"),
    ({"NAME", "PLUS", "LBRACE"}, "a variable, as in A a or B+ b[]"),
    ({"WORD", "QUOTED"}, "a name"),
)
HIDDEN: Final = {"POWER", "SUPERSCRIPT", "NOT_IN", "MINUS", "INDEX"}  # not named where others are
WORDS: Final = {
    "NAME": "a variable",
    "COMPARE": "a comparison (= != < <= > >=)",
    "WHOLE": "a whole number",
    "NUMBER": "a number",
    "DURATION": "a duration such as 8 ms, 90 s or 1 hour 30 min",
    "POLICY": "skip_till_any_match, skip_till_next_match or strict_contiguity",
    "INDEX": "[i], [i+1], [first] or [last]",
    "PLUS": "+",
    "LPAR": "(",
    "RPAR": ")",
    "LSQB": "[",
    "RSQB": "]",
    "LBRACE": "{",
    "RBRACE": "}",
    "COMMA": "a comma",
    "VBAR": "|",
    "DOT": "a dot",
    "$END": "the end of the query",
}
