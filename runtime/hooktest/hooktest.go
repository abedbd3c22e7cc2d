// Package hooktest tests extensions without a cluster: a real server with real TLS, called by the real client.
//
//	func TestGate(t *testing.T) {
//		extension := hooktest.Start(t, server.Handle(hook.BeforeClusterCreate, "gate", gate))
//		response, err := hooktest.Call(t, extension, hook.BeforeClusterCreate, &runtimehooksv1.BeforeClusterCreateRequest{})
//		...
//		extension.Conforms(t)
//	}
//
// [Start] makes certificates, serves the handlers on loopback, and discovers and registers the extension. A test sees
// the same behavior as in a management cluster: timeouts, failure policies, settings, checks of answers.
package hooktest

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/runtime/certificate"
	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/conformance"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/sample"
	"github.com/capstan-dev/capstan/runtime/server"
)

// Name is the name of the ExtensionConfig of an extension under test.
const Name = "under-test"

// Extension is served and registered until the test ends.
type Extension struct {
	// URL of the server.
	URL string
	// CA of the server's certificate, in PEM form.
	CA []byte
	// Config is the ExtensionConfig after discovery.
	Config *runtimev1.ExtensionConfig
	// Client calls the extension.
	Client *client.Client

	options options
}

type options struct {
	catalog  *hook.Catalog
	settings map[string]string
}

// Option changes how an extension is tested.
type Option func(*options)

// Catalog sets the hooks that the client knows. Default: Cluster API's.
func Catalog(catalog *hook.Catalog) Option { return func(o *options) { o.catalog = catalog } }

// Settings sets spec.settings of the ExtensionConfig, which go into every request.
func Settings(settings map[string]string) Option {
	return func(o *options) { o.settings = settings }
}

// Start serves handlers. It fails the test if [server.New] or discovery rejects them.
func Start(t testing.TB, handlers ...server.Handler) *Extension {
	t.Helper()
	return StartWith(t, handlers)
}

// StartWith is [Start] with options.
func StartWith(t testing.TB, handlers []server.Handler, opts ...Option) *Extension {
	t.Helper()
	o := apply(opts)
	extension, err := server.New(server.Options{Catalog: o.catalog}, handlers...)
	if err != nil {
		t.Fatal(err)
	}
	return StartHandler(t, extension, opts...)
}

// StartHandler is [Start] for an extension that is any http.Handler.
func StartHandler(t testing.TB, handler http.Handler, opts ...Option) *Extension {
	t.Helper()
	keeper, err := certificate.New(t.Context(), certificate.InDirectory(t.TempDir()),
		certificate.Options{Hosts: []string{"127.0.0.1"}, Name: Name})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := keeper.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // checks break connections on purpose
	s.TLS = &tls.Config{Certificates: []tls.Certificate{*pair}, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return Connect(t, s.URL, keeper.Authorities(), opts...)
}

// Connect is [Start] for an extension that is already served at a URL, in any language. ca is in PEM form.
func Connect(t testing.TB, url string, ca []byte, opts ...Option) *Extension {
	t.Helper()
	o := apply(opts)
	// Tests see the waits that handlers name, which the client may otherwise shorten.
	calls, err := client.New(client.Options{
		Catalog: o.catalog, MaxRetryAfter: 365 * 24 * time.Hour, Recheck: 365 * 24 * time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(calls.Close)
	if err := calls.WarmUp(&runtimev1.ExtensionConfigList{}); err != nil {
		t.Fatal(err)
	}
	config := &runtimev1.ExtensionConfig{
		ObjectMeta: metav1.ObjectMeta{Name: Name},
		Spec: runtimev1.ExtensionConfigSpec{
			ClientConfig: runtimev1.ClientConfig{URL: url, CABundle: ca}, Settings: o.settings,
		},
	}
	discovered, err := calls.Discover(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if err := calls.Register(discovered); err != nil {
		t.Fatal(err)
	}
	return &Extension{URL: url, CA: ca, Config: discovered, Client: calls, options: o}
}

func apply(opts []Option) options {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if o.catalog == nil {
		o.catalog = hook.ClusterAPI()
	}
	return o
}

// Call calls all handlers of a hook as Cluster API does, for the Cluster of package sample.
func Call[Req, Resp any, PReq interface {
	hook.Request[Req]
	runtimehooksv1.RequestObject
}, PResp hook.Response[Resp]](t testing.TB, e *Extension, of hook.Hook[Req, Resp], request *Req) (*Resp, error) {
	t.Helper()
	response := new(Resp)
	err := e.Client.CallAllExtensions(t.Context(), of, sample.Cluster(), PReq(request), PResp(response))
	return response, err
}

// CallOne calls one handler by its name on the server, as Cluster API does for handlers named in a ClusterClass.
func CallOne[Req, Resp any, PReq interface {
	hook.Request[Req]
	runtimehooksv1.RequestObject
}, PResp hook.Response[Resp]](t testing.TB, e *Extension, of hook.Hook[Req, Resp], handler string,
	request *Req) (*Resp, error) {
	t.Helper()
	response := new(Resp)
	var object ctrlclient.Object = sample.Cluster()
	err := e.Client.CallExtension(t.Context(), of, object, handler+"."+Name, PReq(request), PResp(response))
	return response, err
}

// Check runs all checks of package conformance.
func (e *Extension) Check(ctx context.Context) (*conformance.Report, error) {
	return conformance.Run(ctx, conformance.Target{
		URL: e.URL, CA: e.CA, Settings: e.options.settings, Catalog: e.options.catalog,
	})
}

// Conforms fails the test for every check that fails, and logs the report.
func (e *Extension) Conforms(t testing.TB) {
	t.Helper()
	report, err := e.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if !report.OK(false) {
		t.Errorf("the extension does not conform:\n%s", text.String())
		return
	}
	t.Log(text.String())
}
