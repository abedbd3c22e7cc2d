package local

import "testing"

// TestMend uses leftovers in the words of agents, from the tests of agent/baseline and agent/clean.
func TestMend(t *testing.T) {
	for _, c := range []struct{ leftover, want string }{
		{
			"process 812 kubelet",
			"kill 812",
		},
		{
			`process /usr/bin/sleep of uid 0 ("sleep 3600")`,
			"pgrep -af /usr/bin/sleep, then kill what does not belong there",
		},
		{
			"socket tcp 4444 of uid 0",
			"ss -ltnp 'sport = :4444', then stop the program",
		},
		{
			"mount /mnt/x (tmpfs of none)",
			"umount /mnt/x",
		},
		{
			"interface evil0 (bridge)",
			"ip link delete evil0",
		},
		{
			"address 192.0.2.9/32 on eth0",
			"ip address delete 192.0.2.9/32 dev eth0",
		},
		{
			"route to 203.0.113.0/24 by 10.99.0.1 on eth0 in table 254",
			"ip route delete 203.0.113.0/24 table 254",
		},
		{
			"nftables table inet evil with other rules (9d0f9bf4)",
			"nft delete table inet evil",
		},
		{
			"packet filter table nat of iptables with other rules (9d0f9bf4)",
			"iptables-legacy -t nat -F, and -P for its chains",
		},
		{
			"kernel module evil",
			"rmmod evil",
		},
		{
			`sysctl net/ipv4/ip_forward, which was "0" and is "1"`,
			"sysctl -w net/ipv4/ip_forward='0'",
		},
		{
			"path /etc/ld.so.preload, which was not there before",
			"rm -r /etc/ld.so.preload",
		},
		{
			"path /etc/fstab, whose mode was 0644 and is 0666",
			"chmod 0644 /etc/fstab",
		},
		{
			"path /etc/hosts, whose owner was 0:0 and is 0:65534",
			"chown -h 0:0 /etc/hosts",
		},
		{
			"path /etc/passwd, which is not as it was before",
			"restore /etc/passwd, or reinstall the host",
		},
		{
			"path /tmp/sh, a program with rights of its own (mode 04755, uid 0)",
			"ls -l /tmp/sh, then rm /tmp/sh if it is new",
		},
		{
			"path /tmp/$(reboot), which was not there before",
			"",
		},
		{
			"path /tmp/x;reboot, which was not there before",
			"",
		},
		{
			"interface -evil (bridge)",
			"",
		},
		{
			"unknown: the baseline of the host is missing, /x",
			"",
		},
		{
			"and 12 more, see the log of the cleaning on the host",
			"",
		},
		{
			"the machine itself: the management cluster does not say so",
			"",
		},
	} {
		if got := Mend(c.leftover); got != c.want {
			t.Errorf("%s: %q, want %q", c.leftover, got, c.want)
		}
	}
}
