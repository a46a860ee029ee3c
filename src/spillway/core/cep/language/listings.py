"""The queries of the paper on hybrid shedding, as they are printed except for errors.

What was corrected, and why:

- Q2 has ``a.ID=c.ID`` twice; the second has to be ``a.ID=d.ID``, or nothing would tie the last element to the others.
  The experiment on the pattern's length limits the closure: ``Q2.replace("A+", "A{1,3}")``.
- Q3's parentheses do not balance. The text speaks of the average distance of A and B, so AVG has two arguments.
- Listing 1 is run with paths of at least five stations (Section VI-A): ``BIKES``. As printed it is ``HOT_PATHS``.

>>> from spillway.core.cep.language import correlation, parse
>>> {name: correlation(parse(text)).attributes for name, text in LISTINGS.items()}
{'q1': ('ID',), 'q2': ('ID',), 'q3': ('ID',), 'q4': ('ID',), 'hot_paths': ('bike',), 'bikes': ('bike',),
 'cluster': ('task_id',)}
"""

from __future__ import annotations

from typing import Final

Q1: Final = """\
PATTERN SEQ(A a,B b,C c)
WHERE a.ID=b.ID AND a.ID=c.ID AND a.V+b.V=c.V
WITHIN 8ms"""

Q2: Final = """\
PATTERN SEQ(A a,A+ b[],B c,C d)
WHERE a.ID=b[i].ID AND a.ID=c.ID AND a.ID=d.ID
AND b[i].V=a.V AND a.V+c.V=d.V
WITHIN 1ms"""

Q3: Final = """\
PATTERN SEQ(A a,B b,C c,D d)
WHERE a.ID=b.ID AND a.x ≥ b.v/2 AND a.x ≤ b.v
AND a.y ≥ b.v/2 AND a.y ≤ b.v AND b.ID=c.ID
AND c.ID=d.ID AND b.v=d.v AND
AVG(sqrt((a.x)²+(a.y)²), sqrt((b.x)²+(b.y)²)) < c.v
WITHIN 5ms"""

Q4: Final = """\
PATTERN SEQ(A a, NEG B b,C c)
WHERE a.ID=b.ID AND a.ID=c.ID
WITHIN 1ms"""

HOT_PATHS: Final = """\
PATTERN SEQ(BikeTrip+ a[], BikeTrip b)
WHERE a[i+1].bike=a[i].bike AND b.end∈{7,8,9}
AND a[last].bike=b.bike AND a[i+1].start=a[i].end
WITHIN 1h"""

BIKES: Final = HOT_PATHS.replace("BikeTrip+", "BikeTrip{5,}")

CLUSTER: Final = """\
PATTERN SEQ(Su a,Sc b,Ev c,Sc d,Ev e,Sc f,Fa g)
WHERE [task_id] AND b.machine=c.machine
AND b.machine!=d.machine AND d.machine=e.machine
AND d.machine!=f.machine AND f.machine=g.machine
WITHIN 1h"""

LISTINGS: Final = {
    "q1": Q1,
    "q2": Q2,
    "q3": Q3,
    "q4": Q4,
    "hot_paths": HOT_PATHS,
    "bikes": BIKES,
    "cluster": CLUSTER,
}
