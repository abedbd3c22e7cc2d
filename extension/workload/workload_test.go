package workload

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const good = `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:6443"}}],"users":[{"name":"u","user":{"token":"secret"}}]}`

// A kubeconfig written in a namespace must not make this process run programs or read files.
func TestConfigRefuses(t *testing.T) {
	user := func(text string) string { return strings.Replace(good, `"token":"secret"`, text, 1) }
	cluster := func(text string) string {
		return strings.Replace(good, `"server":"https://127.0.0.1:6443"`, `"server":"https://127.0.0.1:6443",`+text, 1)
	}
	server := func(url string) string { return strings.Replace(good, "https://127.0.0.1:6443", url, 1) }
	for name, c := range map[string]struct{ text, want string }{
		"a program to run": {
			user(`"exec":{"apiVersion":"client.authentication.k8s.io/v1","command":"sh","interactiveMode":"Never"}`),
			"exec is not accepted",
		},
		"a plugin":                  {user(`"auth-provider":{"name":"x"}`), "auth-provider is not accepted"},
		"a file with a token":       {user(`"tokenFile":"/etc/shadow"`), "tokenFile is not accepted"},
		"a file with a certificate": {user(`"client-certificate":"/etc/shadow"`), "client-certificate is not accepted"},
		"a file with a key":         {user(`"client-key":"/etc/shadow"`), "client-key is not accepted"},
		"a password":                {user(`"username":"u","password":"p"`), "username or password is not accepted"},
		"another user's name":       {user(`"as":"system:admin"`), "impersonation is not accepted"},
		"a file with an authority": {cluster(`"certificate-authority":"/etc/shadow"`),
			"certificate-authority is not accepted"},
		"any certificate": {cluster(`"insecure-skip-tls-verify":true`),
			"insecure-skip-tls-verify is not accepted"},
		"a proxy":                    {cluster(`"proxy-url":"http://127.0.0.1:1"`), "proxy-url is not accepted"},
		"plain HTTP":                 {server("http://127.0.0.1:6443"), "its server is not accepted"},
		"no server":                  {server(""), "its server is not accepted"},
		"credentials in the address": {server("https://u:p@127.0.0.1:6443"), "its server is not accepted"},
		"no current context": {strings.Replace(good, `"current-context":"c"`, `"current-context":"x"`, 1),
			"its current context does not exist"},
		"no user": {strings.Replace(good, `"user":"u"`, `"user":"x"`, 1),
			"names a cluster or user that does not exist"},
		"not a kubeconfig": {"secret: [", "it is not a kubeconfig"},
	} {
		if _, err := Config([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error is %v, want %s", name, err, c.want)
		}
	}
	config, err := Config([]byte(good))
	if err != nil || config.Host != "https://127.0.0.1:6443" || config.BearerToken != "secret" || config.Timeout == 0 {
		t.Errorf("got %v, %v", config, err)
	}
}

// secrets is a management cluster with one Secret.
type secrets struct {
	client.Reader
	secret *corev1.Secret
	err    error
}

func (s secrets) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if s.err != nil {
		return s.err
	}
	if s.secret == nil || key.String() != "default/blue-kubeconfig" {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
	}
	s.secret.DeepCopyInto(object.(*corev1.Secret))
	return nil
}

func TestConnect(t *testing.T) {
	for name, c := range map[string]struct {
		world secrets
		none  bool
		want  string
	}{
		"no Secret":       {secrets{}, true, "there is no kubeconfig: Secret default/blue-kubeconfig does not exist"},
		"an empty Secret": {secrets{secret: &corev1.Secret{}}, true, "Secret default/blue-kubeconfig has no key value"},
		"an unreadable Secret": {secrets{err: errors.New("forbidden")}, false,
			"reading Secret default/blue-kubeconfig: forbidden"},
		"an invalid kubeconfig": {secrets{secret: &corev1.Secret{Data: map[string][]byte{"value": []byte("x")}}}, false,
			"it is not a kubeconfig"},
		"an invalid certificate": {
			secrets{
				secret: &corev1.Secret{
					Data: map[string][]byte{
						"value": []byte(strings.Replace(good, `"token":"secret"`,
							`"client-certificate-data":"eA==","client-key-data":"eA=="`, 1)),
					},
				},
			}, false, "reading certificates",
		},
		"a valid Secret": {secrets{secret: &corev1.Secret{Data: map[string][]byte{"value": []byte(good)}}}, false, ""},
	} {
		cluster, err := Connect(t.Context(), c.world, client.ObjectKey{Namespace: "default", Name: "blue"},
			runtime.NewScheme())
		if cluster != nil {
			cluster.Close()
		}
		if errors.Is(err, ErrNoKubeconfig) != c.none || (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want %q", name, err, c.want)
		}
	}
}

// A connection that breaks halfway always produces the same text, without the local port.
func TestTheSameFailureHasTheSameText(t *testing.T) {
	breaks := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		if tcp, is := conn.(*tls.Conn).NetConn().(*net.TCPConn); is {
			_ = tcp.SetLinger(0) // ends with a reset
		}
		_ = conn.(*tls.Conn).NetConn().Close()
	}))
	defer breaks.Close()
	seen := map[string]bool{}
	for range 3 {
		c, err := Open(&rest.Config{
			Host: breaks.URL, TLSClientConfig: rest.TLSClientConfig{
				CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: breaks.Certificate().Raw}),
			},
		}, runtime.NewScheme())
		if err != nil {
			t.Fatal(err)
		}
		response, err := c.HTTP.Get(breaks.URL)
		c.Close()
		if err == nil {
			response.Body.Close()
			t.Fatal("no error")
		}
		seen[err.Error()] = true
	}
	if len(seen) != 1 {
		t.Errorf("the same failure has different texts: %v", slices.Collect(maps.Keys(seen)))
	}
}
