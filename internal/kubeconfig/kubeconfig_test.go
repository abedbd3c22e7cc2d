package kubeconfig

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	text = `{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u","namespace":"n"}}],` +
		`"clusters":[{"name":"c","cluster":%s},{"name":"d","cluster":{"proxy-url":"http://127.0.0.1"}}],` +
		`"users":[{"name":"u","user":%s},{"name":"v","user":{"exec":{"command":"/bin/sh"}}}]}`
	cluster = `{"server":"https://10.0.0.1:6443","certificate-authority-data":"YQ==","tls-server-name":"x"}`
	user    = `{"client-certificate-data":"Yg==","client-key-data":"Yw==","token":"t"}`
)

func TestReadKeepsWhatAConnectionNeeds(t *testing.T) {
	config, err := Read(fmt.Appendf(nil, text, cluster, user))
	if err != nil {
		t.Fatal(err)
	}
	written, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"/bin/sh", "proxy-url"} {
		if strings.Contains(string(written), other) {
			t.Errorf("%s of an entry outside of the current context is left: %s", other, written)
		}
	}
	again, err := clientcmd.RESTConfigFromKubeConfig(written)
	if err != nil {
		t.Fatal(err)
	}
	direct, err := Client(written)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*rest.Config{again, direct} {
		got := []string{c.Host, c.ServerName, string(c.CAData), string(c.CertData), string(c.KeyData), c.BearerToken}
		if strings.Join(got, " ") != "https://10.0.0.1:6443 x a b c t" {
			t.Errorf("the client has %q", got)
		}
	}
	if config.CurrentContext != "c" || config.Contexts["c"].Namespace != "n" {
		t.Errorf("the current context is %s, the contexts are %+v", config.CurrentContext, config.Contexts)
	}
}

func TestReadRefuses(t *testing.T) {
	server := func(more string) string { return `{"server":"https://10.0.0.1:6443"` + more + `}` }
	for name, c := range map[string]struct{ cluster, user, says string }{
		"a program":                      {cluster, `{"exec":{"apiVersion":"v1","command":"/bin/sh"}}`, "exec"},
		"a plugin":                       {cluster, `{"auth-provider":{"name":"oidc"}}`, "auth-provider"},
		"a certificate in a file":        {cluster, `{"client-certificate":"/a"}`, "client-certificate"},
		"a key in a file":                {cluster, `{"client-key":"/a"}`, "client-key"},
		"a token in a file":              {cluster, `{"tokenFile":"/a"}`, "tokenFile"},
		"a password":                     {cluster, `{"username":"a","password":"b"}`, "password"},
		"another user's name":            {cluster, `{"as":"admin"}`, "impersonation"},
		"another group":                  {cluster, `{"as-groups":["system:masters"]}`, "impersonation"},
		"an authority in a file":         {server(`,"certificate-authority":"/a"`), user, "certificate-authority"},
		"a server that is not verified":  {server(`,"insecure-skip-tls-verify":true`), user, "insecure"},
		"a proxy":                        {server(`,"proxy-url":"http://127.0.0.1:80"`), user, "proxy-url"},
		"a server without TLS":           {`{"server":"http://127.0.0.1:2379"}`, user, "https"},
		"a server that is a file":        {`{"server":"file:///etc/shadow"}`, user, "https"},
		"a server with a password":       {`{"server":"https://a:b@10.0.0.1"}`, user, "https"},
		"no server":                      {`{}`, user, "https"},
		"a text that can't be parsed":    {`{`, user, "not a kubeconfig"},
		"a kubeconfig that is too large": {cluster, `{"token":"` + strings.Repeat("a", MaxSize) + `"}`, "bytes"},
	} {
		given := fmt.Appendf(nil, text, c.cluster, c.user)
		for _, err := range []error{second(Read(given)), second(Client(given))} {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: got error %v, want one with %q", name, err, c.says)
			}
		}
	}
	if _, err := Read([]byte(`{"current-context":"x"}`)); err == nil {
		t.Error("a kubeconfig whose context does not exist was accepted")
	}
}

func second[T any](_ T, err error) error { return err }
