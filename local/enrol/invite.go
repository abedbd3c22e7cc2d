package enrol

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/enrolment"
)

// Invitation is what a computer needs, in addition to a credential, to become a host. Nothing in it is secret.
type Invitation struct {
	// Server is the URL of the enrolment server.
	Server string `json:"server"`
	// CAHash is the hash of the public key of the plane's certificate authority, in kubeadm's format.
	CAHash string `json:"caHash"`
	// ScriptHash is the SHA-256 of the script that the server offers, in hex.
	ScriptHash string `json:"scriptHash"`
}

// lookTimeout and scriptLimit bound fetching the script.
const (
	lookTimeout = 20 * time.Second
	scriptLimit = 64 << 10
)

// Invite asks an enrolment server for an invitation, over the same path that a host would use. ca is the plane's
// certificate authority in PEM; Invite fails if the server can't prove that it belongs to the plane.
func Invite(ctx context.Context, server string, ca []byte) (Invitation, error) {
	u, err := url.Parse(server)
	if err != nil {
		return Invitation{}, fmt.Errorf("reading the address of the enrolment server: %w", err)
	}
	block, _ := pem.Decode(ca)
	if block == nil {
		return Invitation{}, errors.New("the plane's authority is not PEM")
	}
	authority, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return Invitation{}, fmt.Errorf("reading the plane's authority: %w", err)
	}
	pin := enrolment.Pin(authority)
	caller := &http.Client{Timeout: lookTimeout, Transport: &http.Transport{
		TLSClientConfig: enrolment.ClientConfig(u.Hostname(), pin), DisableKeepAlives: true,
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server+enrolment.InstallPath, nil)
	if err != nil {
		return Invitation{}, err
	}
	response, err := caller.Do(request)
	if err != nil {
		return Invitation{}, fmt.Errorf("reaching the enrolment server: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, scriptLimit))
	if err != nil {
		return Invitation{}, fmt.Errorf("reading the offer of the enrolment server: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return Invitation{}, fmt.Errorf("the enrolment server at %s answers %s", server, response.Status)
	}
	sum := sha256.Sum256(text)
	return Invitation{Server: server, CAHash: pin, ScriptHash: hex.EncodeToString(sum[:])}, nil
}

// Command returns the shell command that makes a computer a host. The command must run as root with the credential on
// standard input. It checks the hash of the downloaded script before it runs the script. args go to "capstan-agent
// enroll". The command contains no single quotes. Pure.
func (i Invitation) Command(args ...string) string {
	get := i.Server + enrolment.InstallPath
	return strings.Join([]string{
		"set -e",
		`f=$(mktemp)`,
		`trap "rm -f $f" EXIT`,
		"if command -v curl >/dev/null; then curl -fsSk --connect-timeout 20 --max-time 120 -o $f " + get + " </dev/null",
		"else wget -q --no-check-certificate -T 60 -O $f " + get + " </dev/null",
		"fi",
		`echo "` + i.ScriptHash + `  $f" | sha256sum -c >/dev/null 2>&1 ||` +
			` { echo "capstan: what ` + i.Server + ` sent is not the script of your plane, so nothing was run:` +
			` create another line with capstan host token create" >&2`,
		"exit 1",
		"}",
		strings.Join(append([]string{"sh $f"}, args...), " "),
	}, "; ")
}

// Line returns one line to paste into a shell of a computer to make it a host. The credential is an argument of printf,
// which is a shell builtin, so it appears neither in the process list nor in sudo's log. The line begins with a space,
// because many shells keep such lines out of their history. Pure.
func (i Invitation) Line(credential string) string {
	return fmt.Sprintf(" printf %%s %s | $(command -v sudo) sh -c '%s'", credential, i.Command())
}

// File returns a ticket: a file with everything that capstan-agent needs to enroll.
func (i Invitation) File(credential, host string) ([]byte, error) {
	data, err := yaml.Marshal(enrolment.Ticket{
		Server: i.Server, CAHash: i.CAHash, Credential: credential, Host: host,
	})
	if err != nil {
		return nil, fmt.Errorf("writing the file: %w", err)
	}
	return append([]byte("# For: capstan-agent enroll --from FILE. Keep this file secret: it holds a credential.\n"),
		data...), nil
}

// credentialFile is where cloud-init briefly keeps the credential: in memory, readable by root only.
const credentialFile = "/run/capstan-credential"

// bootTries is how often a booting computer tries to enroll, one minute apart.
const bootTries = 60

// CloudInit returns user data for cloud-init that makes a computer a host at its first boot. The plane may start later
// than the computer.
func (i Invitation) CloudInit(credential string) ([]byte, error) {
	try := "( " + i.Command() + "; ) < " + credentialFile
	loop := fmt.Sprintf("n=0; until %s; do n=$((n+1)); [ $n -lt %d ] || exit 1; sleep 60; done", try, bootTries)
	data, err := yaml.Marshal(map[string]any{
		"write_files": []any{map[string]any{
			"path": credentialFile, "permissions": "0600", "content": credential + "\n",
		}},
		"runcmd": []any{[]string{"sh", "-c", loop}, []string{"rm", "-f", credentialFile}},
	})
	if err != nil {
		return nil, fmt.Errorf("writing user data: %w", err)
	}
	return append([]byte("#cloud-config\n"), data...), nil
}
