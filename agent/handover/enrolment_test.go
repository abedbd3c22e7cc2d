package handover

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/agent/config"
)

// authority is a certificate in PEM.
func authority(t *testing.T) string {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

func base(t *testing.T) config.Config {
	return config.Config{
		Server: "https://a:1", CAData: authority(t), Namespace: "blue", Host: "h1", Token: "of a", BundlesDir: "/b",
		StateDir: t.TempDir(),
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestANextEnrolmentBecomesTheCurrentOne(t *testing.T) {
	c := base(t)
	s := NewStore(c)
	must(t, s.Forget()) // there is no next enrolment
	for _, read := range []func() (*Enrolment, error){s.Current, s.Next} {
		if e, err := read(); e != nil || err != nil {
			t.Fatalf("got %v, %v before there is an enrolment", e, err)
		}
	}
	e := Enrolment{Offer: "u/1", Server: "https://b:2", CAData: c.CAData, Token: "of b", Enrolment: "https://b:3"}
	must(t, s.Prepare(e))
	if next, err := s.Next(); err != nil || next == nil || next.Offer != "u/1" || next.Token != "of b" {
		t.Fatalf("next is %+v, %v", next, err)
	}
	if current, err := s.Current(); current != nil || err != nil {
		t.Fatalf("current is %+v, %v", current, err)
	}
	must(t, s.Change())
	if next, err := s.Next(); next != nil || err != nil {
		t.Fatalf("next is %+v, %v after the change", next, err)
	}
	current, err := s.Current()
	if err != nil || current == nil {
		t.Fatalf("current is %+v, %v", current, err)
	}
	got := s.Config(current)
	if got.Server != e.Server || got.Token != "of b" || got.Host != "h1" || got.StateDir != c.StateDir ||
		got.BundlesDir != "/b" || got.Enrolment != e.Enrolment {
		t.Errorf("configuration %+v", got)
	}
	c.Enrolment = "https://a:2"
	if got := NewStore(c).Config(&Enrolment{Server: "https://b:2"}); got.Enrolment != "" {
		t.Errorf("the agent would go to the enrolment server of the plane that it left: %s", got.Enrolment)
	}
	c.Enrolment = ""
	if got.TokenPath() == c.TokenPath() {
		t.Error("two management clusters share a token file, so one would get the token of the other")
	}
	if info, err := os.Stat(filepath.Join(c.StateDir, currentFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the current enrolment: %v, %v", info, err)
	}
	for change, edit := range map[string]func(*config.Config){
		"server": func(c *config.Config) { c.Server = "https://c:3" },
		"token":  func(c *config.Config) { c.Token = "new" },
		"host":   func(c *config.Config) { c.Host = "h2" },
	} {
		edited := c
		edit(&edited)
		if e, err := NewStore(edited).Current(); e != nil || err != nil {
			t.Errorf("the enrolment overrides the %s that was configured later: %+v, %v", change, e, err)
		}
	}
	// Another offer is accepted, and then called off.
	must(t, s.Prepare(Enrolment{Offer: "v/1", Server: "https://c:3", CAData: c.CAData, Token: "of c"}))
	must(t, s.Forget())
	if next, err := s.Next(); next != nil || err != nil {
		t.Errorf("next is %+v, %v after it was forgotten", next, err)
	}
	if current, err := s.Current(); err != nil || current == nil || current.Offer != "u/1" {
		t.Errorf("current is %+v, %v", current, err)
	}
}

func TestDamagedFiles(t *testing.T) {
	c := base(t)
	s := NewStore(c)
	whole := "offer: u/1\nserver: https://b:2\ntoken: hunter2\ncaData: |\n  " +
		strings.ReplaceAll(strings.TrimSpace(c.CAData), "\n", "\n  ") + "\n"
	digest := "insteadOf: " + s.digest() + "\n"
	cases := map[string]struct{ text, err string }{
		"a valid file":           {whole + digest, ""},
		"not YAML":               {"hunter2: [", "it is damaged"},
		"an unknown key":         {whole + digest + "hunter2: x\n", "it is damaged"},
		"no token":               {strings.Replace(whole+digest, "token: hunter2\n", "", 1), "not an enrolment"},
		"no offer":               {strings.Replace(whole+digest, "offer: u/1\n", "", 1), "not an enrolment"},
		"a server without https": {strings.Replace(whole+digest, "https:", "http:", 1), "not an enrolment"},
	}
	for name, k := range cases {
		t.Run(name, func(t *testing.T) {
			must(t, os.WriteFile(filepath.Join(c.StateDir, nextFile), []byte(k.text), 0o600))
			e, err := s.Next()
			if (err != nil) != (k.err != "") || err != nil &&
				(!strings.Contains(err.Error(), k.err) || !strings.Contains(err.Error(), "remove it")) {
				t.Errorf("got %v, %v", e, err)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the message quotes the file: %v", err)
			}
		})
	}
}

func TestTidyLeavesNoTokenOfAnotherManagementCluster(t *testing.T) {
	c := base(t)
	s := NewStore(c)
	moved := s.Config(&Enrolment{Server: "https://b:2", CAData: c.CAData})
	keep := filepath.Base(moved.TokenPath())
	for _, name := range []string{"token", keep, "token-0000", ".token-0000-123", ".next.yaml-123", "next.yaml",
		"enrolment.yaml", "agent.lock", "tokens"} {
		must(t, os.WriteFile(filepath.Join(c.StateDir, name), nil, 0o600))
	}
	must(t, s.Tidy(moved))
	entries, err := os.ReadDir(c.StateDir)
	must(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	want := []string{"agent.lock", "enrolment.yaml", "next.yaml", keep, "tokens"}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("files left: %v, want %v", got, want)
	}
}
