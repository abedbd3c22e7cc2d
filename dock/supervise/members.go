//go:build linux

package supervise

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// markName is the environment variable by which the descendants of one start of a command are found again, as cgroups are not available
// to ordinary users everywhere. systemd sets the same variable.
const markName = "INVOCATION_ID"

// members lists the processes of this PID namespace that carry mark in their environment or belong to session sid (0: none).
// The process that asks is never among them. unsettled says that there are processes without any environment: they may be about to execute another program,
// and should be looked at again.
func members(mark string, sid int) (found []int, unsettled bool) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, false
	}
	self, _ := os.Readlink("/proc/self/ns/pid")
	want := []byte(markName + "=" + mark)
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		dir := "/proc/" + e.Name()
		// Where /proc is the machine's (see rootfs), it lists more than this namespace, under other ids.
		if ns, err := os.Readlink(dir + "/ns/pid"); err != nil || ns != self {
			continue
		}
		pid, session := ids(dir)
		if pid == 0 || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile(dir + "/environ")
		switch {
		case sid != 0 && session == sid, err == nil && hasPair(env, want):
			found = append(found, pid)
		case err == nil && len(env) == 0:
			unsettled = true
		}
	}
	return found, unsettled
}

func hasPair(env, want []byte) bool {
	for _, pair := range bytes.Split(env, []byte{0}) {
		if bytes.Equal(pair, want) {
			return true
		}
	}
	return false
}

// ids reads the process id and session id as the innermost namespace of that process knows them. Zombies have none: they
// are as good as ended. Threads of the kernel have none either.
func ids(dir string) (pid, session int) {
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return 0, 0
	}
	for _, line := range strings.Split(string(status), "\n") {
		name, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if len(fields) == 0 {
			continue
		}
		switch last := fields[len(fields)-1]; name {
		case "State":
			if fields[0] == "Z" || fields[0] == "X" {
				return 0, 0
			}
		case "Kthread":
			if last == "1" {
				return 0, 0
			}
		case "NSpid":
			pid, _ = strconv.Atoi(last)
		case "NSsid":
			session, _ = strconv.Atoi(last)
		}
	}
	return pid, session
}
