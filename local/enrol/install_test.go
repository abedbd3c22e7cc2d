package enrol

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/enrolment"
)

// fakeAgent is an agent that prints its arguments and its input.
const fakeAgent = "#!/bin/sh\necho \"args: $*\"; echo \"input: $(cat)\"\n"

// paste runs a line in a shell, as root of a mount namespace with its own empty /opt, and returns the output.
func paste(t *testing.T, shell, line string, env ...string) (string, error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make a mount namespace")
	}
	for _, program := range []string{"unshare", "curl", "sha256sum", shell} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s on this machine", program)
		}
	}
	file := filepath.Join(t.TempDir(), "line")
	if err := os.WriteFile(file, []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// The shell reads the line from a file, as it would from a terminal, so no process has the line as an argument.
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "sh", "-c",
		`mount --make-rprivate / && mount -t tmpfs none /opt && `+shell+` `+file+`; code=$?; ls -R /opt; exit $code`)
	cmd.Env = append(os.Environ(), env...)
	cmd.Env = append(cmd.Env, "http_proxy=", "https_proxy=", "HTTPS_PROXY=", "HTTP_PROXY=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// served returns a server that offers an agent, and an invitation to it.
func served(t *testing.T, agent string) (*front, Invitation) {
	t.Helper()
	f := newFront(t, nil)
	if err := os.WriteFile(filepath.Join(f.binaries, "capstan-agent"), []byte(agent), 0o755); err != nil {
		t.Fatal(err)
	}
	i, err := Invite(t.Context(), f.url, f.ca)
	if err != nil {
		t.Fatal(err)
	}
	return f, i
}

// TestTheLine: with a shell and curl, the line from Invitation.Line makes a computer a host; the agent gets the
// credential on standard input.
func TestTheLine(t *testing.T) {
	f, i := served(t, fakeAgent)
	credential, _ := enrolment.NewCredential()
	for _, shell := range []string{"sh", "bash"} {
		out, err := paste(t, shell, i.Line(credential))
		want := fmt.Sprintf(
			"args: enroll --server %s --ca-hash %s --token-file -\ninput: %s\n",
			f.url,
			enrolment.Pin(f.authority),
			credential,
		)
		if err != nil || !strings.Contains(out, want) || !strings.Contains(out, "/opt/capstan/bin:\ncapstan-agent\n") {
			t.Errorf("%s: %v\n%s", shell, err, out)
		}
	}
}

// TestTheLineWithWget: without curl, the line downloads with wget.
func TestTheLineWithWget(t *testing.T) {
	_, i := served(t, fakeAgent)
	credential, _ := enrolment.NewCredential()
	dir := t.TempDir()
	for _, program := range []string{
		"sh", "wget", "sha256sum", "mktemp", "rm", "id", "uname", "mkdir", "mv", "chmod", "cat", "mount", "unshare", "ls",
	} {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Skipf("no %s on this machine", program)
		}
		if err := os.Symlink(path, filepath.Join(dir, program)); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		hash string
		ok   bool
	}{"the script": {i.ScriptHash, true}, "another script": {strings.Repeat("0", 64), false}} {
		i.ScriptHash = c.hash
		out, err := paste(t, "sh", i.Line(credential), "PATH="+dir)
		if (err == nil) != c.ok || strings.Contains(out, "input: "+credential) != c.ok {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// TestTheLineIsClosed: the line runs and installs only the script and the agent that it was created for, and gives
// nothing else the credential.
func TestTheLineIsClosed(t *testing.T) {
	credential, _ := enrolment.NewCredential()
	untouched := func(t *testing.T, out string, err error) {
		t.Helper()
		if err == nil || strings.Contains(out, "args:") || strings.Contains(out, "/opt/capstan/bin:\ncapstan-agent") {
			t.Errorf("%v\n%s", err, out)
		}
		if strings.Contains(out, credential) {
			t.Errorf("the credential is in the output: %s", out)
		}
	}
	t.Run("the server sends another script", func(t *testing.T) {
		_, i := served(t, fakeAgent)
		i.ScriptHash = strings.Repeat("0", 64)
		out, err := paste(t, "sh", i.Line(credential))
		untouched(t, out, err)
		if !strings.Contains(out, "is not the script of your plane") {
			t.Errorf("the output does not give the reason:\n%s", out)
		}
	})
	t.Run("another plane is at the address", func(t *testing.T) {
		f, i := served(t, fakeAgent)
		other, _ := served(t, fakeAgent)
		i.Server = other.url
		out, err := paste(t, "sh", i.Line(credential))
		untouched(t, out, err)
		if len(f.asked)+len(other.asked) != 0 {
			t.Error("a plane got the credential")
		}
	})
	t.Run("the agent has changed since the line was made", func(t *testing.T) {
		f, i := served(t, fakeAgent)
		path := filepath.Join(f.binaries, "capstan-agent")
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho args: evil\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		out, err := paste(t, "sh", i.Line(credential))
		untouched(t, out, err)
	})
	t.Run("no server is at the address", func(t *testing.T) {
		_, i := served(t, fakeAgent)
		i.Server = "https://127.0.0.1:1"
		out, err := paste(t, "sh", i.Line(credential))
		untouched(t, out, err)
	})
	t.Run("the server has no agent for this architecture", func(t *testing.T) {
		f := newFront(t, nil)
		i, err := Invite(t.Context(), f.url, f.ca)
		if err != nil {
			t.Fatal(err)
		}
		out, err := paste(t, "sh", i.Line(credential))
		untouched(t, out, err)
		if !strings.Contains(out, "has no agent for "+runtime.GOARCH) {
			t.Errorf("the output does not give the reason:\n%s", out)
		}
	})
}

// TestTheScriptComparesTheAgent: if a server sends an agent other than the one that the script expects, nothing is
// installed.
func TestTheScriptComparesTheAgent(t *testing.T) {
	f, _ := served(t, fakeAgent)
	text := script(f.url, enrolment.Pin(f.authority), "v9", map[string]string{
		"amd64": strings.Repeat("1", 64), "arm64": strings.Repeat("1", 64),
	})
	file := filepath.Join(t.TempDir(), "install")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := paste(t, "sh", "echo credential | sh "+file)
	if err == nil || strings.Contains(out, "args:") || strings.Contains(out, "capstan-agent\n") ||
		!strings.Contains(out, "is not the agent") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestScriptIsPlain: no value in the script can end the quoted string that contains it.
func TestScriptIsPlain(t *testing.T) {
	got := string(script("https://x'; rm -rf /; '", "h\n", "v1\nrm", map[string]string{"amd64": "a'b@HASH@"}))
	for _, bad := range []string{"x'", "v1\nrm", "@HASH@", "a'b"} {
		if strings.Contains(got, bad) {
			t.Errorf("%q is in the script:\n%s", bad, got)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "sh", "-n", "-c", got).CombinedOutput(); err != nil {
		t.Errorf("sh can't parse the script: %v %s", err, out)
	}
}

// TestInviteRefusesStrangers: there is no line for a server that can't prove that it belongs to the plane.
func TestInviteRefusesStrangers(t *testing.T) {
	f, other := newFront(t, nil), newFront(t, nil)
	if i, err := Invite(t.Context(), other.url, f.ca); err == nil {
		t.Errorf("a server of another plane: got %+v, want an error", i)
	}
	if _, err := Invite(t.Context(), "https://127.0.0.1:1", f.ca); err == nil {
		t.Error("without a server, Invite returned no error")
	}
	if _, err := Invite(t.Context(), f.url, []byte("no PEM")); err == nil {
		t.Error("with an invalid authority, Invite returned no error")
	}
}

// TestForms: File returns a ticket, and CloudInit returns user data that runs the same command as the line.
func TestForms(t *testing.T) {
	i := Invitation{
		Server:     "https://192.0.2.1:7444",
		CAHash:     "sha256:" + strings.Repeat("1", 64),
		ScriptHash: strings.Repeat("2", 64),
	}
	data, err := i.File("secret", "rack1")
	ticket := enrolment.Ticket{}
	if err != nil || yaml.UnmarshalStrict(data, &ticket) != nil ||
		ticket != (enrolment.Ticket{Server: i.Server, CAHash: i.CAHash, Credential: "secret", Host: "rack1"}) {
		t.Errorf("the file is %s, %v", data, err)
	}
	if strings.Contains(i.Command(), "'") {
		t.Error("the command contains a single quote, which would end the quoted part of the line")
	}
	if line := i.Line("secret"); strings.Contains(line, "\n") || !strings.HasPrefix(line, " ") {
		t.Errorf("the line is %q", line)
	}
	data, err = i.CloudInit("secret")
	if err != nil || !bytes.HasPrefix(data, []byte("#cloud-config\n")) {
		t.Fatalf("user data is %s, %v", data, err)
	}
	var cloud struct {
		Files []struct {
			Path, Permissions, Content string
		} `json:"write_files"`
		Run [][]string `json:"runcmd"`
	}
	if err := yaml.UnmarshalStrict(data, &cloud); err != nil || len(cloud.Files) != 1 ||
		cloud.Files[0].Permissions != "0600" ||
		cloud.Files[0].Content != "secret\n" ||
		len(cloud.Run) != 2 {
		t.Fatalf("user data is %+v, %v", cloud, err)
	}
	for _, words := range cloud.Run {
		if strings.Contains(strings.Join(words, " "), "secret") {
			t.Errorf("the credential is an argument: %q", words)
		}
	}
}

// TestCloudInitRuns: cloud-init's commands make the computer a host, and the credential is gone afterwards.
func TestCloudInitRuns(t *testing.T) {
	_, i := served(t, fakeAgent)
	data, err := i.CloudInit("secret")
	if err != nil {
		t.Fatal(err)
	}
	var cloud struct {
		Run [][]string `json:"runcmd"`
	}
	if err := yaml.Unmarshal(data, &cloud); err != nil {
		t.Fatal(err)
	}
	lines := "set -e; mount -t tmpfs none /run; echo secret >" + credentialFile + "\n"
	for n, words := range cloud.Run {
		file := filepath.Join(t.TempDir(), fmt.Sprint(n))
		if err := os.WriteFile(file, []byte(words[len(words)-1]), 0o600); err != nil {
			t.Fatal(err)
		}
		if words[0] == "sh" {
			lines += "sh " + file + "\n"
			continue
		}
		lines += strings.Join(words, " ") + "\n"
	}
	out, err := paste(t, "sh", lines+"ls -A /run")
	if err != nil || !strings.Contains(out, "--token-file -\ninput: secret\n") ||
		strings.Contains(out, "capstan-credential") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestDownloadsAreBounded: the server limits the concurrent downloads of one address.
func TestDownloadsAreBounded(t *testing.T) {
	f, _ := served(t, strings.Repeat("x", 32<<20))
	c := f.client(t, false)
	var open []io.Closer
	defer func() {
		for _, one := range open {
			one.Close()
		}
	}()
	busy := 0
	for range downloadsOfOne + 2 {
		response, err := c.Get(f.url + "/v1/agent/linux/" + runtime.GOARCH)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, response.Body) // nobody reads it, so the download continues
		if response.StatusCode == http.StatusTooManyRequests {
			busy++
		}
	}
	if busy == 0 {
		t.Error("the downloads of one address are not limited")
	}
}
