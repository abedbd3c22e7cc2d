package local

import (
	"regexp"
	"strings"
)

// mendings maps leftovers, in the words of agents (agent/baseline, agent/clean), to commands that remove them. $1 and
// $2 are replaced with the groups in parentheses.
var mendings = []struct {
	leftover *regexp.Regexp
	command  string
}{
	{regexp.MustCompile(`^process (\d+) `), "kill $1"},
	{regexp.MustCompile(`^process (/\S+) of uid`), "pgrep -af $1, then kill what does not belong there"},
	{regexp.MustCompile(`^socket tcp6? (\d+)`), "ss -ltnp 'sport = :$1', then stop the program"},
	{regexp.MustCompile(`^socket udp6? (\d+)`), "ss -lunp 'sport = :$1', then stop the program"},
	{regexp.MustCompile(`^mount (/\S+)`), "umount $1"},
	{regexp.MustCompile(`^interface ([\w.-]+)`), "ip link delete $1"},
	{regexp.MustCompile(`^address ([0-9a-f.:/]+) on ([\w.-]+)$`), "ip address delete $1 dev $2"},
	{regexp.MustCompile(`^route to (\S+) by .* in table (\d+)$`), "ip route delete $1 table $2"},
	{regexp.MustCompile(`^nftables table (?:(\w+) )?(\S+)`), "nft delete table $1 $2"},
	{regexp.MustCompile(`^packet filter table (\w+) of (ip6?tables) `), "$2-legacy -t $1 -F, and -P for its chains"},
	{regexp.MustCompile(`^kernel module (\w+)$`), "rmmod $1"},
	{regexp.MustCompile(`^sysctl ([\w/.-]+), which was "([\w. -]*)"`), "sysctl -w $1='$2'"},
	{regexp.MustCompile(`^user (\S+)$`), "userdel --remove $1"},
	{regexp.MustCompile(`^group (\S+)$`), "groupdel $1"},
	{regexp.MustCompile(`^path (/\S+), which was not there before$`), "rm -r $1"},
	{regexp.MustCompile(`^path (/\S+), whose mode was (\d+) `), "chmod $2 $1"},
	{regexp.MustCompile(`^path (/\S+), whose owner was (\d+:\d+) `), "chown -h $2 $1"},
	{regexp.MustCompile(`^path (/\S+), a program with rights of its own`), "ls -l $1, then rm $1 if it is new"},
	{regexp.MustCompile(`^path (/\S+), which is (?:not as it was before|gone)$`), "restore $1, or reinstall the host"},
	{regexp.MustCompile(`^path (/\S+)$`), "rm -r $1"},
}

// plain matches text that is safe in a command: hosts choose names, and people paste commands.
var plain = regexp.MustCompile(`^[A-Za-z0-9/._:@+ -]*$`)

// Mend returns a command, meant for people, that removes a leftover from a host. The result is empty if no command is
// known or if the leftover's name is not safe in a shell.
func Mend(leftover string) string {
	for _, m := range mendings {
		found := m.leftover.FindStringSubmatchIndex(leftover)
		if found == nil {
			continue
		}
		for i := 2; i+1 < len(found); i += 2 {
			if found[i] >= 0 && (!plain.MatchString(leftover[found[i]:found[i+1]]) || leftover[found[i]] == '-') {
				return ""
			}
		}
		text := m.leftover.ExpandString(nil, m.command, leftover, found)
		return strings.Join(strings.Fields(string(text)), " ")
	}
	return ""
}
