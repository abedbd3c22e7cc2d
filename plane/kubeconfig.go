//go:build linux

package plane

import (
	"fmt"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capstan-dev/capstan/internal/atomicfile"
	"github.com/capstan-dev/capstan/plane/pki"
)

// Names of the files and directories in the plane's directory.
const (
	pkiDir              = "pki"
	etcdDir             = "etcd"
	encryptionDir       = "encryption"
	logsDir             = "logs"
	managerKubeconfig   = "manager.kubeconfig"
	extensionKubeconfig = "extension.kubeconfig"
	kcmKubeconfig       = "controller-manager.kubeconfig"
)

// UserKubeconfig returns the kubeconfig of the plane's administrator. dir is the plane's directory, in which a plane
// must have been started before. server is the URL at which the user reaches the API server, such as
// https://127.0.0.1:40123.
func UserKubeconfig(dir, server string) ([]byte, error) {
	keys, err := pki.Load(pki.Directory{Path: filepath.Join(dir, pkiDir)})
	if err != nil {
		return nil, fmt.Errorf("reading the keys of the plane: %w; start the plane first", err)
	}
	return kubeconfig(server, "capstan", keys.CA, &clientcmdapi.AuthInfo{
		ClientCertificateData: keys.Admin.Cert, ClientKeyData: keys.Admin.Key,
	})
}

// kubeconfig renders a kubeconfig.
func kubeconfig(server, name string, ca pki.Pair, client *clientcmdapi.AuthInfo) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca.Cert}
	config.AuthInfos[name] = client
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: "default"}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encoding a kubeconfig: %w", err)
	}
	return data, nil
}

// writeKubeconfigs writes the kubeconfigs of the plane's own processes. They refer to certificate files, which clients
// read again after a renewal.
func writeKubeconfigs(info Info) error {
	for name, client := range map[string]pki.Pair{
		managerKubeconfig:   info.PKI.Manager,
		extensionKubeconfig: info.PKI.Extension,
		kcmKubeconfig:       info.PKI.ControllerManager,
	} {
		data, err := kubeconfig(info.Server, "plane", info.PKI.CA, &clientcmdapi.AuthInfo{
			ClientCertificate: client.CertFile, ClientKey: client.KeyFile,
		})
		if err != nil {
			return err
		}
		if err := atomicfile.Write(filepath.Join(info.Dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// restConfig returns a configuration for connections to the API server with the certificate of client, which is read
// again after a renewal.
func restConfig(info Info, client pki.Pair) *rest.Config {
	return &rest.Config{
		Host: info.Server,
		TLSClientConfig: rest.TLSClientConfig{
			CAData: info.PKI.CA.Cert, CertFile: client.CertFile, KeyFile: client.KeyFile,
		},
	}
}
