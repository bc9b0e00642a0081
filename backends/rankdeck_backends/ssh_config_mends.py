"""asyncssh's reader of ssh configs, mended where it reads otherwise than ssh; imported for that alone."""

from __future__ import annotations

from rankdeck_backends import ssh_config_rules, ssh_config_words, ssh_include_order

for _part in (ssh_include_order, ssh_config_words, ssh_config_rules):
    _part.mend()
