"""``gdrcheck pingpong``: the exchange between two machines, by hand and without a playbook."""
