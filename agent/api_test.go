package agent

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1beta2"
)

const (
	testNamespace = "default"
	testHost      = "h1"
	hostsPath     = "/apis/infrastructure.capstan.dev/v1beta2/namespaces/default/capstanhosts"
	leasePath     = "/apis/coordination.k8s.io/v1/namespaces/default/leases/h1"
	secretPath    = "/api/v1/namespaces/default/secrets/h1-bootstrap"
	tokenPath     = "/api/v1/namespaces/default/serviceaccounts/host-h1/token"
)

// apiServer plays the API server for one host: real TLS and HTTP, with the checks of its Role.
type apiServer struct {
	*httptest.Server

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at each change
	host     v1beta2.CapstanHost
	deleted  bool
	secret   map[string][]byte
	tokens   map[string]bool
	lease    map[string]any
	beats    int
	reports  int
	failures int // how many calls to fail
	denied   []string

	offer     map[string][]byte // of another management cluster
	looks     int               // at the host
	looked    chan struct{}     // closed and replaced at each look
	silent    bool              // to fail all calls
	odd       bool              // to answer looks as no API server does
	strangers int               // calls with a token of another server
}

// serial tells the tokens of servers apart.
var serial atomic.Int64

func newAPIServer(t *testing.T) *apiServer {
	a := &apiServer{changed: make(chan struct{}), looked: make(chan struct{}), tokens: map[string]bool{}}
	a.host.Name, a.host.Namespace, a.host.ResourceVersion = testHost, testNamespace, "1"
	a.host.Spec.Zone = "zone-a"
	a.lease = map[string]any{"metadata": map[string]any{"name": testHost, "namespace": testNamespace, "resourceVersion": "1", "labels": map[string]any{"keep": "me"}}}
	a.Server = httptest.NewTLSServer(http.HandlerFunc(a.serve))
	t.Cleanup(func() {
		a.CloseClientConnections()
		a.Close()
	})
	return a
}

// issue returns a new token that lives for d.
func (a *apiServer) issue(d time.Duration) string {
	payload := fmt.Sprintf(`{"iat":%d,"exp":%d,"n":%d,"iss":%q}`, time.Now().Unix(), time.Now().Add(d).Unix(), serial.Add(1), a.URL)
	token := "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
	a.tokens[token] = true
	return token
}

// config returns the agent's configuration.
func (a *apiServer) config(stateDir string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw}))
	return fmt.Sprintf("server: %s\ncaData: %s\nnamespace: %s\nhost: %s\ntoken: %s\nstateDir: %s\nlocal: true\n",
		a.URL, ca, testNamespace, testHost, a.issue(time.Minute), stateDir)
}

// change changes what the API server knows, and tells watches.
func (a *apiServer) change(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
	a.bump()
}

func (a *apiServer) bump() {
	var n int
	_, _ = fmt.Sscan(a.host.ResourceVersion, &n)
	a.host.ResourceVersion = fmt.Sprint(n + 1)
	close(a.changed)
	a.changed = make(chan struct{})
}

// wait waits until ok is true of the host's report.
func (a *apiServer) wait(t *testing.T, what string, ok func(r *v1beta2.AgentReport) bool) {
	t.Helper()
	limit := time.NewTimer(60 * time.Second)
	defer limit.Stop()
	for {
		a.mu.Lock()
		report, changed := a.host.Status.Agent, a.changed
		a.mu.Unlock()
		if report != nil && ok(report) {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			text, _ := json.MarshalIndent(report, "", "  ")
			t.Fatalf("waiting for %s: the report is %s", what, text)
		}
	}
}

func (a *apiServer) serve(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case a.failures > 0:
		a.failures--
		a.mu.Unlock()
		answer(w, http.StatusInternalServerError, "asked to fail")
		return
	case !a.tokens[token]:
		if strings.Count(token, ".") == 2 && !strings.Contains(payloadOf(token), a.URL) {
			a.strangers++
		}
		a.mu.Unlock()
		answer(w, http.StatusUnauthorized, "the token is not known")
		return
	}
	ofHost := r.Method == http.MethodGet && r.URL.Path == hostsPath && r.URL.Query().Get("fieldSelector") == "metadata.name=h1"
	if ofHost && !a.silent && r.URL.Query().Get("watch") == "true" {
		a.mu.Unlock()
		a.watch(w, r)
		return
	}
	defer a.mu.Unlock()
	if ofHost && !r.URL.Query().Has("watch") {
		a.list(w)
		return
	}
	if a.silent {
		answer(w, http.StatusServiceUnavailable, "asked to be silent")
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "PATCH " + hostsPath + "/h1/status":
		a.patch(w, r)
	case "GET " + secretPath:
		if a.secret == nil {
			answer(w, http.StatusNotFound, "no such Secret")
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": a.secret})
	case "GET " + offerPath:
		if a.offer == nil {
			answer(w, http.StatusNotFound, "no such Secret")
			return
		}
		encode(w, map[string]any{"data": a.offer})
	case "GET " + leasePath:
		_ = json.NewEncoder(w).Encode(a.lease)
	case "PUT " + leasePath:
		body, _ := io.ReadAll(r.Body)
		a.lease = map[string]any{}
		_ = json.Unmarshal(body, &a.lease)
		a.beats++
		a.bump()
		_ = json.NewEncoder(w).Encode(a.lease)
	case "POST " + tokenPath:
		_ = json.NewEncoder(w).Encode(map[string]any{"status": map[string]any{"token": a.issue(24 * time.Hour)}})
	default:
		a.denied = append(a.denied, r.Method+" "+r.URL.String())
		answer(w, http.StatusForbidden, "the Role does not allow that")
	}
}

// patch takes the report, as server-side apply with its own field manager does.
func (a *apiServer) patch(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if r.Header.Get("Content-Type") != "application/apply-patch+yaml" || query.Get("fieldManager") != "capstan-agent" || query.Get("force") != "true" {
		a.denied = append(a.denied, "PATCH "+r.URL.String())
		answer(w, http.StatusUnsupportedMediaType, "not an apply")
		return
	}
	var applied v1beta2.CapstanHost
	if err := json.NewDecoder(r.Body).Decode(&applied); err != nil || applied.Name != testHost || applied.APIVersion == "" {
		answer(w, http.StatusBadRequest, "not a host")
		return
	}
	a.host.Status.Agent = applied.Status.Agent
	a.reports++
	a.bump()
	_ = json.NewEncoder(w).Encode(&a.host)
}

// watch streams the host: as it is, and at each change.
func (a *apiServer) watch(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	last, kind := "", "ADDED"
	for {
		a.mu.Lock()
		host, changed, deleted := a.host.DeepCopy(), a.changed, a.deleted
		a.mu.Unlock()
		if deleted && kind == "ADDED" {
			last = host.ResourceVersion // a watch of nothing shows nothing
		}
		if host.ResourceVersion != last {
			if deleted {
				kind = "DELETED"
			}
			data, _ := json.Marshal(map[string]any{"type": kind, "object": host})
			if _, err := w.Write(append(data, '\n')); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			last, kind = host.ResourceVersion, "MODIFIED"
			if deleted {
				kind = "ADDED"
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
	}
}

func encode(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }

// payloadOf returns what a token says.
func payloadOf(token string) string {
	data, _ := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	return string(data)
}

func answer(w http.ResponseWriter, code int, message string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Message: message, Code: int32(code)})
}

// claim claims the host, with bootstrap data.
func (a *apiServer) claim(id, data string) {
	providerID := "capstan://default/h1/" + id
	metadata, _ := json.Marshal(v1beta2.InstanceData{
		InstanceID: "default/h1/" + id, LocalHostname: "demo-" + id, ProviderID: providerID, Host: testHost, Zone: "zone-a",
	})
	a.change(func() {
		a.secret = map[string][]byte{"value": []byte(data), "format": []byte("cloud-config"), "metadata": metadata}
		a.host.Spec.Claim = &v1beta2.HostClaim{
			Machine: "demo-" + id, MachineUID: id, Cluster: "demo", ProviderID: providerID, Hostname: "demo-" + id, KubernetesVersion: "v1.36.3", BootstrapReady: true,
		}
	})
}
