package local

import (
	"bytes"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// FuzzThroughRelay: the relay is the only destination that remains in a tenant's kubeconfig, nothing in the result runs
// a program or reads a file, and a second call changes nothing.
func FuzzThroughRelay(f *testing.F) {
	const relay, host = "127.0.0.1:41000", "10.231.16.1"
	f.Add([]byte(tenantsKubeconfig))
	f.Add([]byte(`{"clusters":[{"name":"c","cluster":{"server":"x"}},{"name":"d","cluster":{"tls-server-name":"y"}}],` +
		`"users":[{"name":"u","user":{"exec":{"command":"sh"}}}],"extensions":[{"name":"e","extension":{"a":1}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		made, err := throughRelay(data, relay, host)
		if err != nil {
			return
		}
		config, err := clientcmd.Load(made)
		if err != nil {
			t.Fatalf("the resulting kubeconfig can't be parsed: %v", err)
		}
		for name, c := range config.Clusters {
			if c.Server != "https://"+relay || c.TLSServerName != host || c.InsecureSkipTLSVerify || c.ProxyURL != "" ||
				c.CertificateAuthority != "" {
				t.Errorf("cluster %q is %+v", name, c)
			}
		}
		for name, u := range config.AuthInfos {
			if u.Exec != nil || u.AuthProvider != nil || u.TokenFile != "" || u.ClientKey != "" || u.ClientCertificate != "" {
				t.Errorf("user %q is %+v", name, u)
			}
		}
		again, err := throughRelay(made, relay, host)
		if err != nil || !bytes.Equal(again, made) {
			t.Errorf("a second call changes the kubeconfig: %s, then %s, error %v", made, again, err)
		}
	})
}
