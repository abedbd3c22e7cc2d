package enroll

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/enrolment"
)

func TestHostName(t *testing.T) {
	for computer, want := range map[string]string{
		"rack1-07":               "rack1-07",
		"Rack1-07.example.com":   "rack1-07",
		"my_computer":            "my-computer",
		"-x-":                    "x",
		"":                       "",
		"ÄÖ":                     "",
		strings.Repeat("a", 70):  strings.Repeat("a", 63),
		strings.Repeat("a-", 40): strings.TrimRight(strings.Repeat("a-", 40)[:63], "-"),
	} {
		if got := hostName(computer); got != want {
			t.Errorf("%q: %q, want %q", computer, got, want)
		}
	}
}

func TestMachineID(t *testing.T) {
	const hardware, installed = "4C4C4544-0042-3510-8057-B4C04F564433", "0123456789abcdef0123456789abcdef"
	id := func(uuid, machine string) string {
		t.Helper()
		root := t.TempDir()
		for path, text := range map[string]string{"sys/class/dmi/id/product_uuid": uuid, "etc/machine-id": machine} {
			if text == "" {
				continue
			}
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := machineID(root)
		if err != nil {
			return ""
		}
		if len(got) != 64 || strings.Contains(got, strings.ToLower(hardware[:8])) {
			t.Errorf("got %q", got)
		}
		return got
	}
	first := id(hardware, installed)
	if first == "" || id(hardware, strings.Repeat("f", 32)) != first || id(strings.ToLower(hardware), "") != first {
		t.Error("a new installation changes the id of a computer that has a UUID")
	}
	if other := id("4C4C4544-0042-3510-8057-B4C04F564434", installed); other == first {
		t.Error("computers with different UUIDs have the same id")
	}
	second := id("", installed)
	if second == "" || second == first || id("00000000-0000-0000-0000-000000000000", installed) != second ||
		id("Not Specified", installed) != second {
		t.Error("without a valid UUID, the id does not come from the installation")
	}
	if id("", "") != "" || id("", "uninitialized") != "" {
		t.Error("a computer with neither a UUID nor an installation id has an id")
	}
}

// TestOwnKey: the key is created once, for root only; a damaged key is not replaced.
func TestOwnKey(t *testing.T) {
	dir := t.TempDir()
	first, err := ownKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := ownKey(dir)
	if err != nil || !first.(*ecdsa.PrivateKey).Equal(second) {
		t.Errorf("the second call returns another key: %v", err)
	}
	path := filepath.Join(dir, KeyFile)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode of the key file is %v, %v", info.Mode(), err)
	}
	for _, text := range []string{"", "-----BEGIN PRIVATE KEY-----\naGVsbG8=\n-----END PRIVATE KEY-----\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ownKey(dir); err == nil || !strings.Contains(err.Error(), "is damaged") {
			t.Errorf("%q: %v", text, err)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != text {
			t.Errorf("the damaged key was replaced: %q, %v", data, err)
		}
	}
}

func TestUnitText(t *testing.T) {
	got, err := unitText("/opt/capstan/bin/capstan-agent", "/etc/capstan/agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join("testdata", UnitName))
	if err != nil || got != string(want) {
		t.Errorf("the unit is %s, want %s, %v", got, want, err)
	}
	if got, err = unitText("/bin/agent", "/srv/agent.yaml"); err != nil ||
		!strings.Contains(got, "ExecStart=/bin/agent --config /srv/agent.yaml\n") {
		t.Errorf("the unit is %s, %v", got, err)
	}
	for _, path := range []string{"agent", "/a b", "/a\nExecStartPre=/bin/evil", "/a$b", "/a%b", "/a;b"} {
		if _, err := unitText(path, "/etc/agent.yaml"); err == nil {
			t.Errorf("the path %q is accepted as the program", path)
		}
		if _, err := unitText("/bin/agent", path); err == nil {
			t.Errorf("the path %q is accepted as the configuration", path)
		}
	}
}

// TestSystemd: the unit is written before systemd is called, and an error names the failed call.
func TestSystemd(t *testing.T) {
	dir := t.TempDir()
	fake := filepath.Join(dir, "systemctl")
	log := filepath.Join(dir, "log")
	s := Systemd{Program: "/bin/agent", Dir: filepath.Join(dir, "units"), Systemctl: fake}
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "--no-service") {
		t.Errorf("without systemd: %v", err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(fake, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("test -e " + s.path() + " && echo $* >>" + log + "\n")
	if err := errors.Join(s.Check(), s.Start(t.Context(), "/etc/capstan/agent.yaml")); err != nil {
		t.Fatal(err)
	}
	want := "daemon-reload\nenable capstan-agent.service\nrestart capstan-agent.service\n"
	if got, err := os.ReadFile(log); err != nil || string(got) != want {
		t.Errorf("systemctl was called with %q, %v", got, err)
	}
	write("test $1 != enable || { echo no such unit >&2; exit 1; }\n")
	if err := s.Start(t.Context(), "/etc/capstan/agent.yaml"); err == nil ||
		!strings.Contains(err.Error(), "systemctl enable") ||
		!strings.Contains(err.Error(), "no such unit") {
		t.Errorf("the error after a failed call is %v", err)
	}
}

func TestTicket(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	full := file("full", "server: https://a:1\ncaHash: sha256:1\ncredential: secret\nhost: rack1\n", 0o600)
	all := enrolment.Ticket{Server: "https://a:1", CAHash: "sha256:1", Credential: "secret", Host: "rack1"}
	flags := enrolment.Ticket{Server: "https://b:1", CAHash: "sha256:2"}
	for name, c := range map[string]struct {
		flags       enrolment.Ticket
		from, token string
		input       string
		want        enrolment.Ticket
		fail        string
	}{
		"a file": {from: full, want: all},
		"a file on standard input": {
			from: "-", input: "{server: 'https://a:1', caHash: 'sha256:1', credential: secret, host: rack1}", want: all,
		},
		"flags override the file": {
			flags: enrolment.Ticket{Host: "rack2"}, from: full,
			want: enrolment.Ticket{Server: all.Server, CAHash: all.CAHash, Credential: "secret", Host: "rack2"},
		},
		"flags, and the credential on standard input": {
			flags: flags, token: "-", input: "secret\n",
			want: enrolment.Ticket{Server: flags.Server, CAHash: flags.CAHash, Credential: "secret"},
		},
		"flags, and the credential in a file": {
			flags: flags, token: file("token", "secret", 0o400),
			want: enrolment.Ticket{Server: flags.Server, CAHash: flags.CAHash, Credential: "secret"},
		},
		"neither a file nor a credential": {flags: flags, fail: "give the file with the credential"},
		"both a file and a credential":    {from: full, token: "-", fail: "leave --token-file out"},
		"a file that others can read":     {from: file("open", "server: x", 0o644), fail: "chmod 0600"},
		"an invalid file":                 {from: "-", input: "secret: value\n", fail: "was not written by"},
		"no server":                       {token: "-", input: "secret", fail: "--server and --ca-hash"},
		"a file that does not exist":      {from: filepath.Join(dir, "none"), fail: "reading the credential"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ticket(c.flags, c.from, c.token, strings.NewReader(c.input))
			if c.fail == "" && (err != nil || got != c.want) {
				t.Errorf("got %+v, %v", got, err)
			}
			if c.fail != "" &&
				(err == nil || !strings.Contains(err.Error(), c.fail) || strings.Contains(err.Error(), "value")) {
				t.Errorf("got %v, want %q", err, c.fail)
			}
		})
	}
}

func TestMainArguments(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"help":                          {[]string{"--help"}, 0, "capstan host token create"},
		"an unknown flag":               {[]string{"--token", "secret"}, 2, "not defined"},
		"the credential as an argument": {[]string{"capstan1.secret"}, 2, "unknown argument"},
		"no arguments":                  {nil, 1, "give the file with the credential"},
		"an empty credential": {
			[]string{"--no-service", "--config", filepath.Join(t.TempDir(), "c"), "--server", "https://a:1",
				"--ca-hash", "sha256:1", "--token-file", "-"},
			1, "not an enrolment credential",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			if code := Main(context.Background(), "v1", c.args, strings.NewReader(""), &out, &errOut); code != c.code {
				t.Errorf("exit code %d", code)
			}
			if !strings.Contains(errOut.String(), c.want) {
				t.Errorf("stderr is %q, want %q in it", errOut.String(), c.want)
			}
		})
	}
}
