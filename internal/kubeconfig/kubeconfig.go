// Package kubeconfig reads untrusted kubeconfigs.
//
// The kubeconfig of a workload cluster is in a Secret of the management cluster. Whoever may write Secrets in that
// namespace controls the kubeconfig, and a process with privileges of its own uses it. So a kubeconfig must not make
// that process run a program, read a file, use a proxy or impersonate another user. This package returns only an
// address, a CA and credentials that are written in the kubeconfig itself, and refuses everything else.
package kubeconfig

import (
	"errors"
	"fmt"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// MaxSize is the maximum size of a kubeconfig in bytes.
const MaxSize = 256 << 10

// Read returns the address, CA and credentials of a kubeconfig's current context, under their original names, and
// nothing else. It fails if the cluster or user contains anything else.
func Read(text []byte) (*api.Config, error) {
	name, context, cluster, user, err := current(text)
	if err != nil {
		return nil, err
	}
	config := api.NewConfig()
	config.CurrentContext = name
	config.Contexts[name] = &api.Context{
		Cluster: context.Cluster, AuthInfo: context.AuthInfo, Namespace: context.Namespace,
	}
	config.Clusters[context.Cluster] = &api.Cluster{
		Server: cluster.Server, TLSServerName: cluster.TLSServerName,
		CertificateAuthorityData: cluster.CertificateAuthorityData,
	}
	config.AuthInfos[context.AuthInfo] = &api.AuthInfo{
		ClientCertificateData: user.ClientCertificateData, ClientKeyData: user.ClientKeyData, Token: user.Token,
	}
	return config, nil
}

// Client returns a client configuration for the API server of a kubeconfig, without timeouts and rate limits. It fails
// when Read does.
func Client(text []byte) (*rest.Config, error) {
	_, _, cluster, user, err := current(text)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: cluster.Server,
		TLSClientConfig: rest.TLSClientConfig{
			ServerName: cluster.TLSServerName, CAData: cluster.CertificateAuthorityData,
			CertData: user.ClientCertificateData, KeyData: user.ClientKeyData,
		},
		BearerToken: user.Token,
	}, nil
}

// current returns the current context of a kubeconfig, with its cluster and user. It fails if they contain anything
// that must be refused.
func current(text []byte) (
	name string, context *api.Context, cluster *api.Cluster, user *api.AuthInfo, err error,
) {
	fail := func(err error) (string, *api.Context, *api.Cluster, *api.AuthInfo, error) {
		return "", nil, nil, nil, err
	}
	if len(text) > MaxSize {
		return fail(fmt.Errorf("it has %d bytes, more than the %d that are accepted", len(text), MaxSize))
	}
	loaded, err := clientcmd.Load(text)
	if err != nil {
		return fail(errors.New("it is not a kubeconfig")) // the reason may quote the kubeconfig
	}
	context = loaded.Contexts[loaded.CurrentContext]
	if context == nil {
		return fail(errors.New("its current context does not exist"))
	}
	cluster, user = loaded.Clusters[context.Cluster], loaded.AuthInfos[context.AuthInfo]
	if cluster == nil || user == nil {
		return fail(errors.New("its current context names a cluster or user that does not exist"))
	}
	if refused := refuse(cluster, user); refused != "" {
		return fail(fmt.Errorf(
			"%s is not accepted: the kubeconfig itself must contain the address, the authority and the credentials", refused))
	}
	server, err := url.Parse(cluster.Server)
	if err != nil || server.Scheme != "https" || server.Host == "" || server.User != nil {
		return fail(errors.New("its server is not accepted: it must be https://HOST:PORT"))
	}
	return loaded.CurrentContext, context, cluster, user, nil
}

// refuse returns the first setting that would make this process do more than send requests, or "".
func refuse(cluster *api.Cluster, user *api.AuthInfo) string {
	impersonates := user.Impersonate != "" || user.ImpersonateUID != "" ||
		len(user.ImpersonateGroups) > 0 || len(user.ImpersonateUserExtra) > 0
	for _, what := range []struct {
		name  string
		there bool
	}{
		{"exec", user.Exec != nil},
		{"auth-provider", user.AuthProvider != nil},
		{"client-certificate", user.ClientCertificate != ""},
		{"client-key", user.ClientKey != ""},
		{"tokenFile", user.TokenFile != ""},
		{"username or password", user.Username != "" || user.Password != ""},
		{"impersonation", impersonates},
		{"certificate-authority", cluster.CertificateAuthority != ""},
		{"insecure-skip-tls-verify", cluster.InsecureSkipTLSVerify},
		{"proxy-url", cluster.ProxyURL != ""},
	} {
		if what.there {
			return what.name
		}
	}
	return ""
}
