package process

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// environmentLimit bounds how much of a process's environment is read.
const environmentLimit = 1 << 20

// Find returns the process ids, in this PID namespace, of all running processes that Start started, keyed by token.
// Their children inherit the token, but don't lead a session.
func Find() (map[string]int, error) {
	entries := pids()
	if len(entries) == 0 {
		return nil, errors.New("looking for processes: /proc is not mounted")
	}
	found := map[string]int{}
	for _, entry := range entries {
		// Skip processes that have just ended and those that we can't read: they are not ours.
		token := tokenOf(readAtMost("/proc/"+entry+"/environ", environmentLimit))
		if token == "" {
			continue
		}
		status := readAtMost("/proc/"+entry+"/status", environmentLimit)
		if pid := innermost(status, "NSpid:"); pid > 0 && pid == innermost(status, "NSsid:") {
			found[token] = pid
		}
	}
	return found, nil
}

// pids returns the entries of /proc that are processes.
func pids() []string {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	entries, _ := dir.Readdirnames(-1) // use what could be read
	return slices.DeleteFunc(entries, func(entry string) bool {
		_, err := strconv.Atoi(entry)
		return err != nil
	})
}

// tokenOf returns the token in an environment in the form of /proc/PID/environ.
func tokenOf(environ []byte) string {
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if token, ok := bytes.CutPrefix(variable, []byte(TokenVariable+"=")); ok {
			return string(token)
		}
	}
	return ""
}

// innermost returns the last number of a line such as NSpid in /proc/PID/status, or 0. If a /proc for the process's own
// PID namespace can't be mounted, /proc shows an outer one. Then the line lists the number in each namespace down to
// the process's own.
func innermost(status []byte, field string) int {
	all := numbers(status, field)
	if len(all) == 0 {
		return 0
	}
	pid, err := strconv.Atoi(all[len(all)-1])
	if err != nil {
		return 0
	}
	return pid
}

// numbers returns the numbers in a line of /proc/PID/status.
func numbers(status []byte, field string) []string {
	for line := range strings.Lines(string(status)) {
		if list, ok := strings.CutPrefix(line, field); ok {
			return strings.Fields(list)
		}
	}
	return nil
}

// readAtMost reads up to limit bytes of a file. It returns nil if it can't read the file.
func readAtMost(path string, limit int64) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil
	}
	return data
}
