"""Keyboard-interactive logins through PAM: a key and a password, on a node whose sshd wants both."""

from __future__ import annotations

import asyncio

import pytest

from backends.asked import Person
from cluster import Cluster
from rankdeck_backends import open_backend
from rankdeck_backends.asking import Kind
from rankdeck_backends.base import NodeError, Step
from rankdeck_profiles.model import BackendKind, PoolNode

pytestmark = pytest.mark.cluster

LIMIT = 90.0
PORT = 2222
PASSWORD = "two steps, please"
PAM = "auth required pam_unix.so\naccount required pam_permit.so\nsession required pam_permit.so\n"
STRICT = f"""
set -e
cat > /etc/pam.d/sshd
echo 'root:{PASSWORD}' | chpasswd
/usr/sbin/sshd -f /etc/ssh/sshd_config -o Port={PORT} -o UsePAM=yes -o KbdInteractiveAuthentication=yes \\
  -o PermitRootLogin=yes -o AuthenticationMethods=publickey,keyboard-interactive -o PidFile=none
"""


async def test_a_key_and_a_password_through_pam(needs_cluster: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster(1) as cluster:
        monkeypatch.setenv("RANKDECK_SSH_CONFIG", str(cluster.ssh_config))
        cluster.run("n1", ["/bin/sh", "-c", STRICT], stdin=PAM.encode())
        node = PoolNode("n1", "n1", "root", PORT)

        async def opened(*answers):
            person = Person(*answers)
            backend = open_backend(BackendKind.SSH, connect_timeout=30, asker=person)
            async with asyncio.timeout(LIMIT):
                try:
                    connection = await backend.open(node)
                    await connection.close()
                finally:
                    await backend.close()
            return person

        person = await opened(["wrong"], [PASSWORD])
        assert [question.kind for question in person.asked] == [Kind.PROMPTS] * 2
        assert [(p.text, p.echo) for p in person.asked[0].prompts] == [("Password: ", False)]
        with pytest.raises(NodeError) as caught:
            await opened(None)
        assert caught.value.step is Step.AUTH
        assert caught.value.needs_person
