// Package testapi simulates the API server of a management cluster for the agent of one host: with real TLS and HTTP,
// and with the checks of the host's Role. It provides what tests of several of the agent's packages need.
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

// Server simulates the API server. Mu guards all fields.
type Server struct {
	*httptest.Server

	Mu       sync.Mutex
	changed  chan struct{} // closed and replaced at each change
	Host     v1beta2.CapstanHost
	Deleted  bool              // there is no Host
	Secret   map[string][]byte // the Secret with bootstrap data
	Tokens   map[string]bool   // the tokens that it accepts
	Lease    map[string]any
	Beats    int
	Reports  int
	Failures int      // how many calls still fail
	Denied   []string // calls that the Role forbids

	Offer     map[string][]byte // the offer of another management cluster
	looks     int               // list requests for the host
	looked    chan struct{}     // closed and replaced at each list request
	Silent    bool              // fail all calls
	Odd       bool              // answer list requests with nonsense
	Strangers int               // calls with a token of another server

	Epochs map[int64]bool // epochs whose Secrets exist; nil simulates a version before epochs, which binds no token
}

// serial makes the tokens of different servers differ.
var serial atomic.Int64

// New starts a Server with an unclaimed host. It stops when the test ends.
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

// Issue returns a new token that is valid for d and bound to the present epoch.
func (s *Server) Issue(d time.Duration) string {
	secret := ""
	if s.Epochs != nil {
		secret = v1beta2.EpochSecret(testHost, s.Host.Spec.Epoch)
	}
	return s.issue(d, secret)
}

// issue returns a new token bound to a Secret, or to none if the name is empty.
func (s *Server) issue(d time.Duration, secret string) string {
	payload := fmt.Sprintf(`{"iat":%d,"exp":%d,"n":%d,"iss":%q%s}`,
		time.Now().Unix(), time.Now().Add(d).Unix(), serial.Add(1), s.URL, bound(secret))
	token := "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
	s.Tokens[token] = true
	return token
}

// AgentConfig returns the contents of a configuration file for an agent with a state directory.
func (s *Server) AgentConfig(stateDir string) string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(
		&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	return fmt.Sprintf("server: %s\ncaData: %s\nnamespace: %s\nhost: %s\ntoken: %s\nstateDir: %s\nlocal: true\n",
		s.URL, ca, testNamespace, testHost, s.Issue(time.Minute), stateDir)
}

// Change changes the server's state and shows the change to watches.
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

// Wait waits until ok returns true for the host's report.
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

// Claim claims the host and provides bootstrap data.
func (s *Server) Claim(id, data string) { s.ClaimWith(func(*v1beta2.HostClaim) {}, id, data) }

// ClaimWith claims the host with a claim that the function change has edited, and provides bootstrap data.
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

// WaitLooks waits until the agent has listed the host n more times.
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

// MakeOffer makes the host an offer from the target: it creates a Secret and an annotation, and returns the id of the
// offer, which contains name. The function change edits the Secret first; if it is nil, the Secret stays as it is.
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

// Token returns a token of epoch 0 with these times of issue and expiry. A Server accepts it only after the test has
// added it to Tokens.
func Token(issued, expires time.Time, issuer string) string {
	payload := fmt.Sprintf(`{"iat":%d,"exp":%d,"iss":%q%s}`,
		issued.Unix(), expires.Unix(), issuer, bound(v1beta2.EpochSecret(testHost, 0)))
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
}
