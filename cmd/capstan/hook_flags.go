package main

import (
	"crypto/tls"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

// hookServer is an extension's server, given on the command line.
type hookServer struct {
	url      string
	caFile   string
	certFile string
	keyFile  string
}

func (s *hookServer) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.caFile, "ca-file", "",
		"authorities of the server's certificate, in PEM form (default: those that this machine trusts)")
	cmd.Flags().StringVar(&s.certFile, "client-cert-file", "",
		"client certificate for a server that asks for one, in PEM form")
	cmd.Flags().StringVar(&s.keyFile, "client-key-file", "", "key of that certificate, in PEM form")
	cmd.MarkFlagsRequiredTogether("client-cert-file", "client-key-file")
}

// certificate returns the client certificate for a server that asks for one, or nil if none was given.
func (s *hookServer) certificate() (*tls.Certificate, error) {
	if s.certFile == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(s.certFile, s.keyFile)
	if err != nil {
		return nil, fmt.Errorf("reading --client-cert-file and --client-key-file: %w", err)
	}
	return &pair, nil
}

func (s *hookServer) ca() ([]byte, error) {
	if s.caFile == "" {
		return nil, nil
	}
	data, err := os.ReadFile(s.caFile)
	if err != nil {
		return nil, fmt.Errorf("reading --ca-file: %w", err)
	}
	return data, nil
}

// config returns the ExtensionConfig that would register the server.
func (s *hookServer) config() (*runtimev1.ExtensionConfig, error) {
	ca, err := s.ca()
	if err != nil {
		return nil, err
	}
	return &runtimev1.ExtensionConfig{
		ObjectMeta: metav1.ObjectMeta{Name: "command-line"},
		Spec:       runtimev1.ExtensionConfigSpec{ClientConfig: runtimev1.ClientConfig{URL: s.url, CABundle: ca}},
	}, nil
}
