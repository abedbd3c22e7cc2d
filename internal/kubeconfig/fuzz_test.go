package kubeconfig

import (
	"net/url"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// FuzzClient: a client for a tenant's kubeconfig only sends requests to one server by TLS. It runs no program, reads no
// file, uses no proxy, impersonates nobody and verifies the server. Written and read again, the kubeconfig leads to the
// same server.
func FuzzClient(f *testing.F) {
	const head = `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":` +
		`{"cluster":"c","user":"u"}}],"clusters":[{"name":"c","cluster":`
	const user = `}],"users":[{"name":"u","user":`
	f.Add([]byte(head + `{"server":"https://a:1"}` + user + `{"token":"t"}}]}`))
	f.Add([]byte(head + `{"server":"https://a:1","proxy-url":"socks5://b"}` + user + `{"exec":{"command":"sh"}}}]}`))
	f.Add([]byte(head + `{"server":"file:///etc"}` + user + `{"tokenFile":"/x"}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := Client(data)
		if err != nil {
			return
		}
		server, err := url.Parse(config.Host)
		if err != nil || server.Scheme != "https" || server.Host == "" || server.User != nil {
			t.Errorf("the server is %q", config.Host)
		}
		if config.ExecProvider != nil || config.AuthProvider != nil || config.AuthConfigPersister != nil ||
			config.Proxy != nil || config.BearerTokenFile != "" || config.CAFile != "" || config.CertFile != "" ||
			config.KeyFile != "" || config.Insecure ||
			config.Username != "" || config.Impersonate.UserName != "" || config.Transport != nil || config.Dial != nil {
			t.Errorf("the client would do more than send requests: %+v", config)
		}
		read, err := Read(data)
		if err != nil || len(read.Clusters) != 1 || len(read.AuthInfos) != 1 || len(read.Contexts) != 1 ||
			len(read.Extensions) != 0 {
			t.Fatalf("Read returned %+v, error %v", read, err)
		}
		text, err := clientcmd.Write(*read)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Client(text); err != nil || again.Host != config.Host || again.BearerToken != config.BearerToken {
			t.Errorf("after writing and reading it again, the client is %+v, error %v", again, err)
		}
	})
}
