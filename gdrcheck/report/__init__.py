"""The page of a run, ``report.html``: one file that shows what the merge judged.

It is made of ``summary.json`` and ``data.json.gz`` alone, judges nothing, asks no network for
anything, and works from ``file://``. Whatever a node wrote is text in it: escaped, and never run.
"""
