//go:build linux

package line

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// TestEnrol plays a user with a laptop and two computers, and strangers in the same network.
func TestEnrol(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a network with computers")
	}
	p := newPlane(t)
	p.run("up", "--hosts", "3", "--timeout", "5m")
	for _, port := range []string{"7443", "7444"} {
		if !refused(port) {
			t.Fatalf("without --listen something listens at port %s", port)
		}
	}
	p.run("up", "--listen", planeAddress, "--tls-san", "plane.example", "--timeout", "5m")
	if status := p.run("status"); !strings.Contains(status, "hosts enroll at https://"+planeAddress+":7444") {
		t.Errorf("the status does not say where hosts enroll: %s", status)
	}
	p.small()
	p.certified()
	p.strangers()

	line := p.run("host", "token", "create", "--name", "rack1-07", "--zone", "rack1", "--label", "disk=ssd")
	line = strings.TrimSuffix(line, "\n")
	if strings.Contains(line, "\n") {
		t.Fatalf("the enrolment line has more than one line: %s", line)
	}
	credential := strings.Fields(line)[2]
	first := newComputer(t, 7)
	seen := watchArguments(credential)
	printed, ok := first.runs(line)
	if !ok || !strings.Contains(printed, "This computer is host rack1-07 of namespace default.") {
		t.Fatalf("the line does not work:\n%s", printed)
	}
	if where := seen(); where != "" {
		t.Errorf("the credential was in the arguments of a process: %s", where)
	}
	host := p.available("rack1-07")
	if host.Zone != "rack1" || host.Address != "192.0.2.7" {
		t.Errorf("the host is %+v, want zone rack1 and address 192.0.2.7", host)
	}
	if label := p.field("rack1-07", ".metadata.labels.disk"); label != "ssd" {
		t.Errorf("the label disk of the host is %q, want ssd", label)
	}

	uid := p.field("rack1-07", ".metadata.uid")
	if printed, ok := first.runs(line); !ok || !strings.Contains(printed, "again") {
		t.Errorf("the second run of the line does not find the host again:\n%s", printed)
	}
	if now := p.field("rack1-07", ".metadata.uid"); now != uid {
		t.Error("after the second run of the line, the computer is another host")
	}
	second := newComputer(t, 8)
	if printed, ok := second.runs(line); ok || !strings.Contains(printed, "is used up") {
		t.Errorf("another computer was not refused with the same line:\n%s", printed)
	}
	if printed, ok := second.runs("ls /etc/capstan/agent.yaml"); ok {
		t.Errorf("the refused computer got a configuration: %s", printed)
	}
	wrong := strings.Replace(line, "echo \"", "echo \"0", 1)
	if printed, ok := second.runs(wrong); ok || !strings.Contains(printed, "nothing was run") {
		t.Errorf("a line with another hash was not refused:\n%s", printed)
	}
	p.file(second)
	p.nowhere(credential)

	// After a restart, the plane has the same address and the same hosts, and the agent finds the plane again.
	p.run("down")
	p.run("up", "--timeout", "5m")
	p.available("rack1-07")
	p.run("up", "--listen", "", "--timeout", "5m")
	if !refused("7443") || !refused("7444") {
		t.Error("after --listen was turned off, something still listens")
	}
}

// small checks the agent that hosts fetch: it has at most 30 MB, and needs no libraries.
func (p *plane) small() {
	p.t.Helper()
	path := filepath.Join(filepath.Dir(p.capstan), "capstan-agent")
	info, err := os.Stat(path)
	if err != nil {
		p.t.Fatal(err)
	}
	if info.Size() > 30_000_000 {
		p.t.Errorf("the agent has %d bytes, want at most 30 MB", info.Size())
	}
	program, err := elf.Open(path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer program.Close()
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP || part.Type == elf.PT_DYNAMIC {
			p.t.Errorf("the agent is not static: it has a part %s", part.Type)
		}
	}
}

// field returns a field of a host.
func (p *plane) field(host, path string) string {
	p.t.Helper()
	return p.run("kubectl", "get", "capstanhost", host, "-o", "jsonpath={"+path+"}")
}

// file enrolls a computer with a file, under its own name.
func (p *plane) file(c *computer) {
	p.t.Helper()
	ticket := p.run("host", "token", "create", "--expires", "10m", "-o", "file")
	if printed, ok := c.runs("umask 077; cat > /run/ticket <<'END'\n" + ticket + "END"); !ok {
		p.t.Fatal(printed)
	}
	printed, ok := c.runs("/opt/capstan/bin/capstan-agent enroll --from /run/ticket")
	if !ok || !strings.Contains(printed, "host computer-8 ") {
		p.t.Errorf("enrolling with a file failed:\n%s", printed)
	}
	p.available("computer-8")
}

// shown has fields of a host in the output of "capstan host list -o json".
type shown struct{ Name, State, Zone, Address string }

// available waits until a host can be claimed.
func (p *plane) available(name string) (host shown) {
	p.t.Helper()
	eventually(p.t, "host "+name+" is Available", func() bool {
		var all []shown
		if err := json.Unmarshal([]byte(p.run("host", "list", "-o", "json")), &all); err != nil {
			p.t.Fatal(err)
		}
		for _, one := range all {
			if one.Name == name && one.State == "Available" {
				host = one
				return true
			}
		}
		return false
	})
	return host
}

// refused reports whether nothing listens at a port of the plane's address.
func refused(port string) bool {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(planeAddress, port), 5*time.Second)
	if err == nil {
		conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// authority returns a pool with the plane's authority.
func (p *plane) authority() *x509.CertPool {
	p.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(p.home, "kubeconfig"))
	if err != nil {
		p.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(config.CAData)
	return pool
}

// certified checks that both servers have certificates for their names.
func (p *plane) certified() {
	p.t.Helper()
	for _, port := range []string{"7443", "7444"} {
		for _, name := range []string{planeAddress, "plane.example"} {
			d := &tls.Dialer{Config: &tls.Config{RootCAs: p.authority(), ServerName: name}}
			ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
			conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(planeAddress, port))
			cancel()
			if err != nil {
				p.t.Errorf("the certificate of port %s is not valid for %s: %v", port, name, err)
				continue
			}
			conn.Close()
		}
	}
}

// strangers requests all kinds of paths without a credential, or with an invalid one.
func (p *plane) strangers() {
	p.t.Helper()
	caller := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: p.authority()},
	}}
	defer caller.CloseIdleConnections()
	for _, path := range []string{
		"/", "/version", "/healthz", "/livez", "/readyz", "/metrics", "/api", "/apis", "/api/v1", "/openapi/v2",
		"/openapi/v3", "/api/v1/secrets", "/api/v1/namespaces/kube-system/secrets", "/openid/v1/jwks", "/nosuch",
		"/.well-known/openid-configuration", "/api/v1/namespaces/kube-public/configmaps/cluster-info",
		"/apis/infrastructure.capstan.dev/v1beta2/capstanhosts", "/debug/pprof/", "/logs", "/static/", "/v1/enroll",
		"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			for _, credential := range []string{
				"", "Bearer nothing", "Bearer capstan1.aaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaa", "Basic YTpi",
			} {
				p.refuses(caller, method, path, credential)
			}
		}
	}
	response, err := caller.Get("https://" + planeAddress + ":7444/api/v1/secrets")
	if err != nil {
		p.t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		p.t.Errorf("the enrolment server answers %s, want 403", response.Status)
	}
}

// refuses sends a request to the API server, which must refuse it.
func (p *plane) refuses(caller *http.Client, method, path, credential string) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), method, "https://"+planeAddress+":7443"+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	if credential != "" {
		request.Header.Set("Authorization", credential)
	}
	// The server must not trust the headers by which proxies name the caller.
	request.Header.Set("X-Remote-User", "capstan:admin")
	request.Header.Set("X-Remote-Group", "system:masters")
	request.Header.Set("Impersonate-User", "capstan:admin")
	response, err := caller.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusUnauthorized || bytes.Contains(body, []byte("v1.")) {
		p.t.Errorf("%s %s with %q: %s %s, %v", method, path, credential, response.Status, body, err)
	}
}

// watchArguments watches the arguments of all processes until the returned function is called. That function returns
// the arguments that contained a text.
func watchArguments(text string) func() string {
	stop := make(chan struct{})
	var done sync.WaitGroup
	found := ""
	done.Go(func() {
		for {
			files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, file := range files {
				if data, err := os.ReadFile(file); err == nil && bytes.Contains(data, []byte(text)) {
					found = strings.ReplaceAll(string(data), "\x00", " ")
				}
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	return func() string {
		close(stop)
		done.Wait()
		return found
	}
}

// nowhere fails the test if the plane has stored the secret of a credential anywhere: in logs, the audit log, etcd's
// data or events.
func (p *plane) nowhere(credential string) {
	p.t.Helper()
	secret := credential[strings.LastIndex(credential, ".")+1:]
	err := filepath.WalkDir(p.home, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil // another process removed it meanwhile
		}
		if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, []byte(secret)) {
			p.t.Errorf("the credential is in %s", path)
		}
		return nil
	})
	if err != nil {
		p.t.Error(err)
	}
	if events := p.run("kubectl", "get", "events", "-A", "-o", "yaml"); strings.Contains(events, secret) {
		p.t.Error("the credential is in an event")
	}
}
