//go:build linux

package dock_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/dock"
)

// A dock outlives the shell that starts it, so it must not inherit the shell's environment.
func TestTheDockGetsNoEnvironmentOfTheShell(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
	t.Setenv("LD_PRELOAD_OF_A_SHELL", "hunter2")
	dir := t.TempDir()
	program := filepath.Join(dir, "capstan-dock")
	// The script reports no problems with the machine, and exits when told to run.
	script := "#!/bin/sh\nenv >> " + dir + "/$1\n[ $1 = check ] && echo '[]'\n[ $1 = check ]\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := dock.Start(short(t), dock.Options{Home: filepath.Join(dir, "home"), BinDir: dir}); err == nil {
		t.Fatal("Start took a script for a dock")
	}
	for _, command := range []string{"check", "run"} {
		seen, err := os.ReadFile(filepath.Join(dir, command))
		if err != nil || !strings.Contains(string(seen), "PATH=") || strings.Contains(string(seen), "hunter2") {
			t.Errorf("%s got %s, %v", command, seen, err)
		}
	}
}
