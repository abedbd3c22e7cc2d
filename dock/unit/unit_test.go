package unit

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoadAppliesDropInsInOrder(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "kubelet.service", `
[Unit]
Description=kubelet: the node agent
After=network-online.target containerd.service
[Service]
Type=notify
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10
[Install]
WantedBy=multi-user.target
`)
	write(t, dir, "kubelet.service.d/20-later.conf", "[Service]\nEnvironment=B=3\n")
	write(t, dir, "kubelet.service.d/10-kubeadm.conf", `[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--kubeconfig=/etc/kubernetes/kubelet.conf --x" B=2
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS \
  $KUBELET_EXTRA_ARGS
RestartSec=1
`)
	write(t, dir, "kubelet.service.d/README", "not a drop-in")
	u, err := Load("kubelet.service", []string{dir, "/no/such/dir"})
	if err != nil {
		t.Fatal(err)
	}
	want := &Unit{
		Name: "kubelet.service", Path: filepath.Join(dir, "kubelet.service"), Description: "kubelet: the node agent",
		Type: "simple",
		DropIns: []string{filepath.Join(dir, "kubelet.service.d/10-kubeadm.conf"),
			filepath.Join(dir, "kubelet.service.d/20-later.conf")},
		ExecStart:        []Command{{Argv: []string{"/usr/bin/kubelet", "$KUBELET_KUBECONFIG_ARGS", "$KUBELET_EXTRA_ARGS"}}},
		Environment:      []string{"KUBELET_KUBECONFIG_ARGS=--kubeconfig=/etc/kubernetes/kubelet.conf --x", "B=2", "B=3"},
		EnvironmentFiles: []EnvironmentFile{{Path: "/var/lib/kubelet/kubeadm-flags.env", Optional: true}},
		Restart:          "always", RestartPause: time.Second, TimeoutStart: 90 * time.Second, TimeoutStop: 10 * time.Second,
		KillMode: "control-group",
		After:    []string{"network-online.target", "containerd.service"}, WantedBy: []string{"multi-user.target"},
		Ignored: []string{"Service.StartLimitInterval"},
	}
	if !reflect.DeepEqual(u, want) {
		t.Errorf("got  %+v\nwant %+v", u, want)
	}
}

func TestLoadSaysWhy(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "empty.service", "[Service]\nRestart=no\n")
	write(t, dir, "two.service", "[Service]\nExecStart=/bin/a\nExecStart=/bin/b\n")
	write(t, dir, "forking.service", "[Service]\nType=forking\nExecStart=/bin/a\n")
	write(t, dir, "quote.service", "[Service]\nExecStart=/bin/a \"b\n")
	write(t, dir, "span.service", "[Service]\nExecStart=/bin/a\nRestartSec=soon\n")
	if err := os.Symlink("/dev/null", filepath.Join(dir, "masked.service")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"missing.service": "could not be found", "empty.service": "no ExecStart", "two.service": "Type=oneshot",
		"forking.service": "Type=forking",
		"quote.service":   "unbalanced quote", "span.service": "RestartSec=soon", "masked.service": "masked",
		"../etc/passwd": "not a unit name",
	} {
		_, err := Load(name, []string{dir})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v does not say %q", name, err, want)
		}
		if got := errors.Is(err, ErrNotFound); got != (name == "missing.service") {
			t.Errorf("%s: is ErrNotFound: %v", name, got)
		}
	}
}

func TestWords(t *testing.T) {
	for line, want := range map[string][]string{
		`a b  c`:                  {"a", "b", "c"},
		`"a b" 'c d'`:             {"a b", "c d"},
		`a"b c"d`:                 {"ab cd"},
		`""`:                      {""},
		`a\ b \x41 \101 \u00e9\n`: {"a b", "A", "A", "\u00e9\n"},
		`100%%`:                   {"100%"},
		`"it's" 'say "hi"'`:       {"it's", `say "hi"`},
		``:                        nil,
	} {
		got, err := split(line)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("split(%q) = %q, %v; want %q", line, got, err, want)
		}
	}
	for _, line := range []string{`"a`, `a\`, `\q`, `\x4`, `\999`, `%i`} {
		if got, err := split(line); err == nil {
			t.Errorf("split(%q) = %q, want an error", line, got)
		}
	}
}

func TestExpand(t *testing.T) {
	env := []string{"ONE=1", "TWO=a b", "QUOTED='c d' e", "PERCENT=50%", "ONE=one", "EMPTY="}
	for name, c := range map[string]struct {
		in   Command
		want []string
	}{
		"a variable as a whole word is split": {Command{Argv: []string{"x", "$TWO", "$ONE"}},
			[]string{"x", "a", "b", "one"}},
		"quotes in a value group words": {Command{Argv: []string{"x", "$QUOTED"}}, []string{"x", "c d", "e"}},
		"a variable in braces is not split": {Command{Argv: []string{"x", "-${TWO}-${ONE}"}},
			[]string{"x", "-a b-one"}},
		"an unset or empty variable vanishes": {Command{Argv: []string{"x", "$NOPE", "$EMPTY", "y"}},
			[]string{"x", "y"}},
		"an unset variable in braces is empty": {Command{Argv: []string{"x", "${NOPE}"}}, []string{"x", ""}},
		"two dollar signs become one": {Command{Argv: []string{"x", "$$ONE", "a$$"}},
			[]string{"x", "$ONE", "a$"}},
		"a dollar sign inside of a word is left": {Command{Argv: []string{"x", "a$ONE"}}, []string{"x", "a$ONE"}},
		"the program is not a variable":          {Command{Argv: []string{"$ONE", "y"}}, []string{"$ONE", "y"}},
		"a percent sign in a value means itself": {Command{Argv: []string{"x", "$PERCENT"}}, []string{"x", "50%"}},
		"the prefix : prevents expansion": {Command{Argv: []string{"x", "$ONE"}, NoExpand: true},
			[]string{"x", "$ONE"}},
	} {
		if got := c.in.Expand(env); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestEnvironmentFiles(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "env", "# comment\n; too\nA=1\nB=\"two words\"\nC='it is'\nD=x \\\ny\nnot a pair\n1BAD=x\nE=\n")
	u := &Unit{
		Name: "x.service", Environment: []string{"A=0"},
		EnvironmentFiles: []EnvironmentFile{{Path: path}, {Path: dir + "/none", Optional: true}},
	}
	got, err := u.Env([]string{"BASE=1"})
	want := []string{"BASE=1", "A=0", "A=1", "B=two words", "C=it is", "D=x y", "E="}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	u.EnvironmentFiles[1].Optional = false
	if _, err := u.Env(nil); err == nil {
		t.Error("a missing file is no error")
	}
}

func TestSpan(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"5": 5 * time.Second, "500ms": 500 * time.Millisecond, "1min 30s": 90 * time.Second, "0": 0, "infinity": 0,
		"1.5s": 1500 * time.Millisecond, "2h": 2 * time.Hour,
	} {
		if got, err := Span(in); err != nil || got != want {
			t.Errorf("Span(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "soon", "5 parsecs", "-1", "1e9999h"} {
		if got, err := Span(in); err == nil {
			t.Errorf("Span(%q) = %v, want an error", in, got)
		}
	}
}

func TestEnableAndDisable(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.service", "[Service]\nExecStart=/bin/a\n[Install]\nWantedBy=multi-user.target\n")
	write(t, dir, "static.service", "[Service]\nExecStart=/bin/a\n")
	a, err := Load("a.service", []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second call finds it done
		if _, err := Enable(a, dir); err != nil {
			t.Fatal(err)
		}
		if got, _ := WantedAtBoot(dir); !reflect.DeepEqual(got, []string{"a.service"}) || !Enabled("a.service", dir) {
			t.Errorf("wanted at boot are %v", got)
		}
	}
	if s, _ := Load("static.service", []string{dir}); s == nil {
		t.Error("static.service can't be loaded")
	} else if _, err := Enable(s, dir); err == nil {
		t.Error("a unit without [Install] was enabled")
	}
	for range 2 {
		if _, err := Disable("a.service", dir); err != nil {
			t.Fatal(err)
		}
		if got, _ := WantedAtBoot(dir); len(got) != 0 || Enabled("a.service", dir) {
			t.Errorf("wanted at boot are %v", got)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("[Service]\nExecStart=/bin/a $B ${C} \"d\\x41\"\nRestartSec=1min\nEnvironment=A=1\n")
	f.Fuzz(func(t *testing.T, text string) {
		dir := t.TempDir()
		write(t, dir, "a.service", text)
		u, err := Load("a.service", []string{dir})
		if (u == nil) == (err == nil) {
			t.Fatal("neither a unit nor an error, or both")
		}
		if u != nil && u.Type == "simple" {
			if argv := u.ExecStart[0].Expand(u.Environment); len(argv) == 0 {
				t.Fatal("nothing to execute")
			}
		}
	})
}
