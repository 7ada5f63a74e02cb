"""Two ends of a pair in warm containers, which run what tests ask of them: see ``Drivers``.

A run of the playbook costs a minute or more in the lab; a scenario here costs what it measures.
"""
