package bootstrap

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/agent/cloudconfig"
)

func TestIsKubeadm(t *testing.T) {
	cases := map[string]struct {
		script string
		want   string
	}{
		"as upstream writes init": {
			"kubeadm init --config /run/kubeadm/kubeadm.yaml  && echo success > /run/cluster-api/bootstrap-success.complete",
			"kubeadm init",
		},
		"as upstream writes join": {"kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml --v 5 && echo success",
			"kubeadm join"},
		"kubeadm by its path":                  {"/usr/bin/kubeadm join", "kubeadm join"},
		"the command as a list":                {"'kubeadm' 'join' '--config' 'x'", "kubeadm join"},
		"kubeadm within another command":       {"timeout 60 sh -c 'kubeadm init'", "kubeadm init"},
		"another command of kubeadm":           {"kubeadm config images pull", ""},
		"a file named after kubeadm":           {"cat /run/kubeadm/kubeadm.yaml init", ""},
		"a program whose name ends in kubeadm": {"mykubeadm init", ""},
		"a command that only starts like init": {"kubeadm initialise", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			command := cloudconfig.Command{Script: c.script}
			if got := isKubeadm(command); got != (c.want != "") {
				t.Errorf("got %t", got)
			}
			if c.want != "" && describe(command) != c.want {
				t.Errorf("described as %q", describe(command))
			}
		})
	}
}

// Commands pass on the state that a single shell would keep. This works with every shell that may be /bin/sh.
func TestCommandsShareTheirEnvironment(t *testing.T) {
	for _, shell := range []string{"/bin/sh", "/bin/bash", "/bin/dash"} {
		if _, err := os.Stat(shell); err != nil {
			continue
		}
		t.Run(shell, func(t *testing.T) {
			dir := t.TempDir()
			run := func(text string) (string, error) {
				path := filepath.Join(dir, "command")
				if err := os.WriteFile(path,
					[]byte(script(cloudconfig.Command{Script: text}, filepath.Join(dir, "environment"), "mark-of-"+text[:1])),
					0o600); err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command(shell, path)
				cmd.Env = []string{"PATH=/usr/bin:/bin"}
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			for _, c := range []struct{ text, want, err string }{
				{`A="it's $HOME"; export B='two
lines'; cd /usr; umask 027`, "", ""},
				{`printf '%s|%s|' "$A" "$B"; pwd; umask`, "it's |two\nlines|/usr\n0027\n", ""},
				{`echo $CAPSTAN_RUN; C=kept; exit 3`, "mark-of-e\n", "exit status 3"},
				{`xx() { return 4; }; echo $C $CAPSTAN_RUN; xx`, "kept mark-of-x\n", "exit status 4"},
				{"echo 'not closed", "", "exit status"},
				{`exec true`, "", ""},
				{`echo $C`, "kept\n", ""},
			} {
				out, err := run(c.text)
				if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
					t.Errorf("%s: %v: %s", c.text, err, out)
				}
				if c.want != "" && out != c.want {
					t.Errorf("%s: got %q, want %q", c.text, out, c.want)
				}
			}
			info, err := os.Stat(filepath.Join(dir, "environment"))
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("others may read the environment, which may hold secrets: %v, %v", info, err)
			}
		})
	}
}

func TestTheHostsOwnNameInHosts(t *testing.T) {
	text := nameInHosts("127.0.0.1 localhost", "a.example")
	if want := "127.0.0.1 localhost\n127.0.1.1 a.example a # the host's own name\n"; text != want {
		t.Errorf("got %q", text)
	}
	if got := nameInHosts(text, "b"); got != "127.0.0.1 localhost\n127.0.1.1 b # the host's own name\n" {
		t.Errorf("got %q", got)
	}
}

func TestAHostWithoutKubeadmSaysWhatToDo(t *testing.T) {
	owned := (&Bootstrap{Version: "v1.36.3"}).withoutKubeadm()
	for _, want := range []string{"no bundle of Kubernetes v1.36.3", "capstan bundle import FILE", "kubelet v1.36.3"} {
		if !strings.Contains(owned, want) {
			t.Errorf("the advice for an owned host is %q, want %q in it", owned, want)
		}
	}
	for _, b := range []*Bootstrap{{Version: "v1.36.3", Local: true}, {}} {
		if got := b.withoutKubeadm(); strings.Contains(got, "bundle") {
			t.Errorf("the advice for %+v is %q, which recommends a bundle", b, got)
		}
	}
}
