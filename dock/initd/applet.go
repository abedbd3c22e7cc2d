//go:build linux

package initd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/dock/unit"
)

// Applet runs the command called name, which talks to PID 1. known is false if no such command exists.
func Applet(name string, args []string, out, errOut io.Writer) (code int, known bool) {
	switch name {
	case "systemctl":
		return ask(append([]string{"systemctl"}, args...), out, errOut), true
	case "poweroff", "halt":
		return ask([]string{"systemctl", "poweroff"}, out, errOut), true
	case "reboot":
		return ask([]string{"systemctl", "reboot"}, out, errOut), true
	case "shutdown":
		verb := "poweroff"
		for _, a := range args {
			if a == "-r" || a == "--reboot" {
				verb = "reboot"
			}
		}
		return ask([]string{"systemctl", verb}, out, errOut), true
	case "hostnamectl":
		return hostnamectl(args, out, errOut), true
	case "journalctl":
		return journalctl(args, "/var/log", out, errOut), true
	}
	return 0, false
}

func ask(args []string, out, errOut io.Writer) int {
	r, err := call(args)
	if err != nil {
		fmt.Fprintln(errOut, err)
		return 1
	}
	io.WriteString(out, r.Out)
	io.WriteString(errOut, r.Err)
	return r.Code
}

func hostnamectl(args []string, out, errOut io.Writer) int {
	var words []string
	for _, a := range args {
		if !strings.HasPrefix(a, "-") { // skip --static and the like: a local host has one name
			words = append(words, a)
		}
	}
	switch {
	case len(words) == 2 && (words[0] == "set-hostname" || words[0] == "hostname"):
		return ask([]string{"hostnamectl", words[1]}, out, errOut)
	case len(words) == 0, len(words) == 1 && (words[0] == "status" || words[0] == "hostname"):
		name, err := os.Hostname()
		if err != nil {
			fmt.Fprintln(errOut, err)
			return 1
		}
		if len(words) == 1 && words[0] == "hostname" {
			fmt.Fprintln(out, name)
		} else {
			fmt.Fprintf(out, " Static hostname: %s\n", name)
		}
		return 0
	}
	fmt.Fprintln(errOut,
		"usage: hostnamectl [status | hostname [NAME] | set-hostname NAME] (this is the hostnamectl of a local host)")
	return 1
}

// journalctl prints the logs of units. It refuses -f: a local host's logs are files, which tail -F can follow.
func journalctl(args []string, logDir string, out, errOut io.Writer) int {
	var units []string
	lines := -1
	for i := 0; i < len(args); i++ {
		a := args[i]
		value := func() string {
			if _, v, ok := strings.Cut(a, "="); ok && strings.HasPrefix(a, "--") {
				return v
			}
			if len(a) > 2 && !strings.HasPrefix(a, "--") {
				return a[2:]
			}
			if i++; i < len(args) {
				return args[i]
			}
			return ""
		}
		switch {
		case a == "-xeu", a == "-xu", a == "-eu": // the combinations that kubeadm suggests to users
			a = "-u"
			units = append(units, value())
		case strings.HasPrefix(a, "-u"), strings.HasPrefix(a, "--unit"):
			units = append(units, value())
		case strings.HasPrefix(a, "-n"), strings.HasPrefix(a, "--lines"):
			v := value()
			n, err := strconv.Atoi(v)
			if err != nil && v != "all" {
				fmt.Fprintf(errOut, "journalctl: %q is not a number of lines\n", v)
				return 1
			}
			if lines = n; v == "all" {
				lines = -1
			}
		case strings.HasPrefix(a, "-o"), strings.HasPrefix(a, "--output"), strings.HasPrefix(a, "-p"),
			strings.HasPrefix(a, "--priority"),
			strings.HasPrefix(a, "--since"), a == "-S", strings.HasPrefix(a, "--until"), a == "-U":
			value()
		case strings.HasPrefix(a, "--no-"), a == "-x", a == "-e", a == "-xe", a == "-b", a == "-l", a == "--boot", a == "-q",
			a == "-a", a == "--all":
		default:
			fmt.Fprintf(errOut,
				"journalctl: %s is not supported on a local host; the logs are %s/UNIT.log, follow them with tail -F\n", a, logDir)
			return 1
		}
	}
	if len(units) == 0 {
		fmt.Fprintln(errOut, "journalctl: name a unit with -u UNIT")
		return 1
	}
	for _, u := range units {
		name := unit.FullName(u)
		if err := unit.ValidName(name); err != nil {
			fmt.Fprintf(errOut, "journalctl: %v\n", err)
			return 1
		}
		text, err := tail((&Manager{logDir: logDir}).LogPath(name), lines)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			fmt.Fprintf(errOut, "journalctl: %v\n", err)
			return 1
		case strings.TrimSpace(text) == "":
			fmt.Fprintln(out, "-- No entries --")
			continue
		}
		fmt.Fprintln(out, text)
	}
	return 0
}
