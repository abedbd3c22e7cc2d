package run

import (
	"os"
	"slices"
	"strings"
)

// commands returns the README's commands that create a cluster of machines. It leaves out the commands that build.
func (w *world) commands() (all [][]string) {
	w.Helper()
	text, err := os.ReadFile("../../../README.md")
	if err != nil {
		w.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Machines you own\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if command, is := strings.CutPrefix(line, "    $ "); is {
			command, _, _ = strings.Cut(command, "#")
			all = append(all, strings.Fields(command))
		}
	}
	if n := len(all); n < 2 || n > 6 || all[0][0] != "make" {
		w.Fatalf("the README has %d commands, want 2 to 6, the first of which builds: %q", n, all)
	}
	return all[1:]
}

// asWritten runs the README's commands. It deviates from the README in three ways: it uses another bundle, it uses the
// class of these machines, and it appends the arguments in the parameter more to the command "cluster create".
func (w *world) asWritten(dir string, more ...string) {
	w.Helper()
	said := ""
	for _, command := range w.commands() {
		if command[0] != "capstan" {
			w.Fatalf("the README says %q, want capstan", command)
		}
		args := slices.Clone(command[1:])
		switch strings.Join(args[:2], " ") {
		case "bundle import":
			args[2] = os.Getenv(BundleVariable)
		case "cluster create":
			w.class(dir)
			args = append(append(args, "--class", className), more...)
		}
		said = w.run(args...)
		if line := strings.TrimSpace(said); slices.Contains(args, "token") {
			for _, m := range w.machines {
				w.on(m, line)
			}
			w.until("hosts are Available", w.available)
		}
		w.step("capstan " + strings.Join(command[1:], " "))
	}
	if !strings.Contains(said, " Ready ") || !strings.Contains(said, "coredns") {
		w.Fatalf("the output of the last command has no Nodes that are Ready, or no pods of coredns:\n%s", said)
	}
}
