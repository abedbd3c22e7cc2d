package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/dock"
)

// relayTimeout bounds making and deleting relays.
const relayTimeout = 10 * time.Second

// reachExtensions makes the extensions of the management plane reachable from here: they listen in the dock, where the plane calls them. Their addresses in the
// list are replaced by those of relays, until release is called.
func (a *app) reachExtensions(ctx context.Context, configs []runtimev1.ExtensionConfig) (release func() error, err error) {
	docked := a.dock()
	var relays []string
	release = func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), relayTimeout)
		defer cancel()
		var errs []error
		for _, name := range relays {
			errs = append(errs, docked.DeleteRelay(ctx, name))
		}
		docked.Close()
		return errors.Join(errs...)
	}
	for i := range configs {
		target, ok := insideDock(configs[i].Spec.ClientConfig)
		if !ok {
			continue
		}
		name := relayName(fmt.Sprintf("hook-%d", os.Getpid()), configs[i].Name)
		ctx, cancel := context.WithTimeout(ctx, relayTimeout)
		local, err := docked.EnsureRelay(ctx, name, target.Host)
		cancel()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("reaching the extension %s in the dock: %w", configs[i].Name, err), release())
		}
		relays = append(relays, name)
		target.Host = local
		configs[i].Spec.ClientConfig.URL = target.String()
	}
	return release, nil
}

// insideDock tells whether an extension listens on an address that only the dock has.
func insideDock(config runtimev1.ClientConfig) (*url.URL, bool) {
	target, err := url.Parse(config.URL)
	if err != nil || target.Port() == "" {
		return nil, false
	}
	switch target.Hostname() {
	case "127.0.0.1", dock.Gateway:
		return target, true
	}
	return nil, false
}

// planeCertificate is the user's own client certificate for the plane, which extensions of the plane accept, too.
func (a *app) planeCertificate() (*tls.Certificate, error) {
	config, err := clientcmd.BuildConfigFromFlags("", a.home.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", a.home.Kubeconfig(), err)
	}
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate in %s: %w", a.home.Kubeconfig(), err)
	}
	return &pair, nil
}
