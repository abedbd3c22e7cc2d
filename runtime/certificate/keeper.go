package certificate

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"
)

// Default lifetimes and intervals, and bounds of the work.
const (
	// DefaultLifetime is the lifetime of a server certificate.
	DefaultLifetime = 90 * 24 * time.Hour
	// DefaultAuthorityLifetime is the lifetime of an authority.
	DefaultAuthorityLifetime = 3 * 365 * 24 * time.Hour
	// DefaultOverlap is how long a new authority is published before it signs.
	DefaultOverlap = 24 * time.Hour
	// DefaultCheck is how often the store is checked.
	DefaultCheck = time.Minute

	storeTimeout = 10 * time.Second
	attempts     = 5 // to save, when others write to the store, too
)

// Options of a Keeper. Hosts must be set.
type Options struct {
	// Hosts are the DNS names and IP addresses under which callers reach the server; see [ServiceHosts].
	Hosts []string
	// Name goes into the certificates, for people to read. Default: "runtime extension".
	Name string
	// Lifetime of a server certificate. Default: DefaultLifetime.
	Lifetime time.Duration
	// AuthorityLifetime is the lifetime of an authority. Default: DefaultAuthorityLifetime.
	AuthorityLifetime time.Duration
	// Overlap is how long a new authority is published before it signs. Default: DefaultOverlap.
	Overlap time.Duration
	// Check is how often the store is checked, because others may have renewed its content. Default: DefaultCheck.
	Check time.Duration
	// Log receives renewals and errors. Default: none.
	Log *slog.Logger
	// Now returns the current time. Default: time.Now.
	Now func() time.Time
}

// ServiceHosts returns the DNS names of a Service inside the cluster; Cluster API uses the first one.
func ServiceHosts(name, namespace string) []string {
	base := name + "." + namespace + ".svc"
	return []string{base, base + ".cluster.local", name + "." + namespace, name}
}

func (o *Options) complete() error {
	o.Name = cmp.Or(o.Name, "runtime extension")
	o.Lifetime = cmp.Or(o.Lifetime, DefaultLifetime)
	o.AuthorityLifetime = cmp.Or(o.AuthorityLifetime, DefaultAuthorityLifetime)
	o.Overlap = cmp.Or(o.Overlap, DefaultOverlap)
	o.Check = cmp.Or(o.Check, DefaultCheck)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	switch {
	case len(o.Hosts) == 0:
		return errors.New("there are no Hosts: name those under which callers reach the server")
	case o.Lifetime < 0 || o.AuthorityLifetime < 0 || o.Overlap < 0 || o.Check < 0:
		return errors.New("none of Lifetime, AuthorityLifetime, Overlap and Check may be negative")
	case o.AuthorityLifetime < 3*(o.Lifetime+o.Overlap):
		return fmt.Errorf("AuthorityLifetime is %s: it must be at least three times Lifetime and Overlap together, or a "+
			"certificate outlives its authority",
			o.AuthorityLifetime)
	}
	for _, host := range o.Hosts {
		if strings.ContainsAny(host, "/: ") && net.ParseIP(host) == nil {
			return fmt.Errorf("host %q is not valid: give a name or an address without scheme and port", host)
		}
	}
	return nil
}

// Keeper keeps the certificate of one server valid. Make it with [New].
type Keeper struct {
	store   Store
	options Options
	current atomic.Pointer[kept]
}

type kept struct {
	pair        *tls.Certificate
	authorities []byte
}

// New makes a keeper that already has a certificate to serve.
func New(ctx context.Context, store Store, options Options) (*Keeper, error) {
	if err := options.complete(); err != nil {
		return nil, fmt.Errorf("keeping a certificate: %w", err)
	}
	k := &Keeper{store: store, options: options}
	if err := k.Renew(ctx); err != nil {
		return nil, err
	}
	return k, nil
}

// Run renews what is due until the context is done, and then returns nil. While the store fails, the last good
// certificate is served.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(k.options.Check)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := k.Renew(ctx); err != nil && ctx.Err() == nil {
			k.options.Log.Error("The certificate could not be renewed; the server uses the last good one and will try again",
				"error", err)
		}
	}
}

// Renew reads the store once, renews what is due, and uses the result. Most callers want [Keeper.Run].
func (k *Keeper) Renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var err error
	for range attempts {
		var id *identity
		if id, err = k.renewOnce(ctx); err == nil {
			return k.take(id)
		}
		if !errors.Is(err, ErrConflict) {
			break
		}
	}
	return fmt.Errorf("keeping the server's certificate: %w", err)
}

func (k *Keeper) renewOnce(ctx context.Context) (*identity, error) {
	bundle, version, err := k.store.Load(ctx)
	if err != nil {
		return nil, err
	}
	id, changed, err := renew(bundle, k.options, k.options.Now())
	if err != nil || !changed {
		return id, err
	}
	next, err := encode(id)
	if err != nil {
		return nil, err
	}
	if err := k.store.Save(ctx, next, version); err != nil {
		return nil, err
	}
	k.options.Log.Info("The server's certificate was renewed", "validUntil", id.leaf.NotAfter, "authorities",
		len(id.authorities))
	return id, nil
}

func (k *Keeper) take(id *identity) error {
	bundle, err := encode(id)
	if err != nil {
		return fmt.Errorf("keeping the server's certificate: %w", err)
	}
	pair := id.pair
	k.current.Store(&kept{pair: &pair, authorities: bundle[AuthoritiesKey]})
	return nil
}

// GetCertificate returns the current certificate, for tls.Config and server.TLS.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return k.current.Load().pair, nil
}

// Authorities returns, in PEM form, the authorities that callers should trust: the caBundle of an ExtensionConfig.
func (k *Keeper) Authorities() []byte { return k.current.Load().authorities }
