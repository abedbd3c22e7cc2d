// Package testapi plays the API server of a management cluster for the agent of one host: real TLS and HTTP, with the
// checks of the host's Role. It has what the tests of several packages of the agent need.
package testapi

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1beta2"
)

const (
	testNamespace = "default"
	testHost      = "h1"
	hostsPath     = "/apis/infrastructure.capstan.dev/v1beta2/namespaces/default/capstanhosts"
	leasePath     = "/apis/coordination.k8s.io/v1/namespaces/default/leases/h1"
	secretPath    = "/api/v1/namespaces/default/secrets/h1-bootstrap"
	offerPath     = "/api/v1/namespaces/default/secrets/h1-handover"
	tokenPath     = "/api/v1/namespaces/default/serviceaccounts/host-h1/token"
)

// Server plays the API server. Mu guards all fields.
type Server struct {
	*httptest.Server

	Mu       sync.Mutex
	changed  chan struct{} // closed and replaced at each change
	Host     v1beta2.CapstanHost
	Deleted  bool              // there is no Host
	Secret   map[string][]byte // with bootstrap data
	Tokens   map[string]bool   // that it accepts
	Lease    map[string]any
	Beats    int
	Reports  int
	Failures int      // how many calls to fail
	Denied   []string // calls that the Role does not allow

	Offer     map[string][]byte // of another management cluster
	looks     int               // at the host
	looked    chan struct{}     // closed and replaced at each look
	Silent    bool              // to fail all calls
	Odd       bool              // to answer looks as no API server does
	Strangers int               // calls with a token of another server

	Epochs map[int64]bool // whose Secrets exist; nil: it is of a version before epochs, and binds no token
}

// serial tells the tokens of servers apart.
var serial atomic.Int64

// New starts a Server that has the host, unclaimed. It ends with the test.
func New(t *testing.T) *Server {
	s := &Server{changed: make(chan struct{}), looked: make(chan struct{}), Tokens: map[string]bool{}}
	s.Host.Name, s.Host.Namespace, s.Host.ResourceVersion = testHost, testNamespace, "1"
	s.Host.Spec.Zone = "zone-a"
	s.Epochs = map[int64]bool{0: true}
	s.Lease = map[string]any{
		"metadata": map[string]any{
			"name": testHost, "namespace": testNamespace, "resourceVersion": "1", "labels": map[string]any{"keep": "me"},
		},
	}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// Issue returns a new token that lives for d, bound to the present epoch.
func (s *Server) Issue(d time.Duration) string {
	secret := ""
	if s.Epochs != nil {
		secret = v1beta2.EpochSecret(testHost, s.Host.Spec.Epoch)
	}
	return s.issue(d, secret)
}

// issue returns a new token that is bound to a Secret; empty: to none.
func (s *Server) issue(d time.Duration, secret string) string {
	payload := fmt.Sprintf(`{"iat":%d,"exp":%d,"n":%d,"iss":%q%s}`,
		time.Now().Unix(), time.Now().Add(d).Unix(), serial.Add(1), s.URL, bound(secret))
	token := "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
	s.Tokens[token] = true
	return token
}

// AgentConfig returns the configuration file of an agent with a state directory.
func (s *Server) AgentConfig(stateDir string) string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(
		&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	return fmt.Sprintf("server: %s\ncaData: %s\nnamespace: %s\nhost: %s\ntoken: %s\nstateDir: %s\nlocal: true\n",
		s.URL, ca, testNamespace, testHost, s.Issue(time.Minute), stateDir)
}

// Change changes what the API server knows, and shows it to watches.
func (s *Server) Change(change func()) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	change()
	s.bump()
}

func (s *Server) bump() {
	var n int
	_, _ = fmt.Sscan(s.Host.ResourceVersion, &n)
	s.Host.ResourceVersion = fmt.Sprint(n + 1)
	close(s.changed)
	s.changed = make(chan struct{})
}

// Wait waits until ok is true of the host's report.
func (s *Server) Wait(t *testing.T, what string, ok func(r *v1beta2.AgentReport) bool) {
	t.Helper()
	limit := time.NewTimer(60 * time.Second)
	defer limit.Stop()
	for {
		s.Mu.Lock()
		report, changed := s.Host.Status.Agent, s.changed
		s.Mu.Unlock()
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

// Claim claims the host, with bootstrap data.
func (s *Server) Claim(id, data string) { s.ClaimWith(func(*v1beta2.HostClaim) {}, id, data) }

// ClaimWith claims the host, with a claim that was changed and bootstrap data.
func (s *Server) ClaimWith(change func(*v1beta2.HostClaim), id, data string) {
	providerID := "capstan://default/h1/" + id
	metadata, _ := json.Marshal(v1beta2.InstanceData{
		InstanceID: "default/h1/" + id, LocalHostname: "demo-" + id, ProviderID: providerID, Host: testHost, Zone: "zone-a",
	})
	s.Change(func() {
		s.Secret = map[string][]byte{"value": []byte(data), "format": []byte("cloud-config"), "metadata": metadata}
		s.Host.Spec.Claim = &v1beta2.HostClaim{
			Machine: "demo-" + id, MachineUID: id, Cluster: "demo", ProviderID: providerID, Hostname: "demo-" + id,
			KubernetesVersion: "v1.36.3", BootstrapReady: true,
		}
		change(s.Host.Spec.Claim)
	})
}

// WaitLooks waits until the agent has asked n times more whether the host is there.
func (s *Server) WaitLooks(t *testing.T, n int) {
	t.Helper()
	s.Mu.Lock()
	want := s.looks + n
	s.Mu.Unlock()
	limit := time.NewTimer(60 * time.Second)
	defer limit.Stop()
	for {
		s.Mu.Lock()
		looks, changed := s.looks, s.looked
		s.Mu.Unlock()
		if looks >= want {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			t.Fatalf("the agent asked %d times, want %d", looks, want)
		}
	}
}

// MakeOffer makes an offer of the target to the host: an id of this name, a Secret, and the annotation. change edits
// the Secret before; nil leaves it as it is.
func (s *Server) MakeOffer(target *Server, name string, change func(map[string][]byte)) (id string) {
	target.Mu.Lock()
	token := target.Issue(time.Hour)
	target.Mu.Unlock()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: target.Certificate().Raw})
	id = string(s.Host.UID) + "/" + name
	secret := map[string][]byte{
		v1beta2.OfferIDKey: []byte(id), v1beta2.OfferServerKey: []byte(target.URL), v1beta2.OfferCAKey: ca,
		v1beta2.OfferTokenKey: []byte(token),
	}
	if change != nil {
		change(secret)
	}
	s.Change(func() {
		s.Offer = secret
		s.Host.Annotations = map[string]string{v1beta2.OfferAnnotation: id}
	})
	return id
}

// Token returns a token of epoch 0 that lives from one time to another by its own word. No Server accepts it before it
// is among its Tokens.
func Token(issued, expires time.Time, issuer string) string {
	payload := fmt.Sprintf(`{"iat":%d,"exp":%d,"iss":%q%s}`,
		issued.Unix(), expires.Unix(), issuer, bound(v1beta2.EpochSecret(testHost, 0)))
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
}
