package local

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/plane/hooks"
)

// relayTimeout bounds creating a relay, and deleting the relays that were created.
const relayTimeout = 10 * time.Second

// Relays creates and deletes relays of a dock, as [dock.Client] does.
type Relays interface {
	EnsureRelay(ctx context.Context, name, target string) (local string, err error)
	DeleteRelay(ctx context.Context, name string) error
}

// ReachInstalled makes the extensions that are installed in the plane of a home directory reachable from outside its
// dock. The caller must call release when done.
func ReachInstalled(ctx context.Context, homePath string, plane client.Reader) (
	reached []runtimev1.ExtensionConfig, release func() error, err error,
) {
	installed, err := hooks.Installed(ctx, plane)
	if err != nil {
		return nil, nil, err
	}
	docked := dock.Connect(homePath)
	reached, undo, err := ReachExtensions(ctx, docked, installed)
	if err != nil {
		docked.Close()
		return nil, nil, err
	}
	return reached, func() error { defer docked.Close(); return undo() }, nil
}

// ReachExtensions makes extensions of the plane, which listen inside the dock, reachable from outside. It returns the
// ExtensionConfigs with the addresses of relays. release deletes the relays.
func ReachExtensions(ctx context.Context, relays Relays, configs []runtimev1.ExtensionConfig) (
	reached []runtimev1.ExtensionConfig, release func() error, err error,
) {
	var made []string
	release = func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), relayTimeout)
		defer cancel()
		var errs []error
		for _, name := range made {
			errs = append(errs, relays.DeleteRelay(ctx, name))
		}
		return errors.Join(errs...)
	}
	reached = slices.Clone(configs)
	for i := range reached {
		target, ok := insideDock(reached[i].Spec.ClientConfig)
		if !ok {
			continue
		}
		name := RelayName(fmt.Sprintf("hook-%d", os.Getpid()), reached[i].Name)
		ctx, cancel := context.WithTimeout(ctx, relayTimeout)
		address, err := relays.EnsureRelay(ctx, name, target.Host)
		cancel()
		if err != nil {
			err = fmt.Errorf("reaching the extension %s in the dock: %w", reached[i].Name, err)
			return nil, nil, errors.Join(err, release())
		}
		made = append(made, name)
		target.Host = address
		reached[i].Spec.ClientConfig.URL = target.String()
	}
	return reached, release, nil
}

// insideDock reports whether an extension listens on an address that exists only in the dock. Pure.
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

// UserCertificate returns the client certificate from a kubeconfig of the plane. Extensions of the plane accept it,
// too.
func UserCertificate(kubeconfig string) (*tls.Certificate, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", kubeconfig, err)
	}
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate in %s: %w", kubeconfig, err)
	}
	return &pair, nil
}
