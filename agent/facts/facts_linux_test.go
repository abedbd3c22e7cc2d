package facts

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestOperatingSystem(t *testing.T) {
	dir := t.TempDir()
	cases := map[string]struct{ content, want string }{
		"quoted":          {"NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n", "Debian GNU/Linux 12 (bookworm)"},
		"without quotes":  {"PRETTY_NAME=Alpine\n", "Alpine"},
		"without a name":  {"NAME=x\n", ""},
		"an empty file":   {"", ""},
		"not a name line": {"X_PRETTY_NAME=y\n", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, "os-release")
			if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := operatingSystem(path+".missing", path); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestCollect(t *testing.T) {
	report, err := Collect("https://192.0.2.1:6443", false)
	if err != nil {
		t.Skipf("this machine has no route: %v", err)
	}
	if report.BootID == "" || report.Kernel == "" || report.Processors < 1 || report.MemoryMiB < 1 ||
		net.ParseIP(report.Address) == nil {
		t.Errorf("got %+v", report)
	}
}

func TestHostPort(t *testing.T) {
	cases := map[string]string{
		"https://10.0.0.1:6443": "10.0.0.1:6443",
		"https://plane.example": "plane.example:443",
		"https://[fd00::1]:1":   "[fd00::1]:1",
	}
	for server, want := range cases {
		if got := hostPort(server); got != want {
			t.Errorf("%s: got %s, want %s", server, got, want)
		}
	}
}
