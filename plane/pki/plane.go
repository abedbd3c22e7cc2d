package pki

import (
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Identities of the clients of the plane's API server.
const (
	// AdminUser is the user in the user's kubeconfig; its group may do everything.
	AdminUser  = "capstan:admin"
	AdminGroup = "system:masters"
	// ManagerUser is the process that runs all controllers.
	ManagerUser = "capstan:manager"
	// ExtensionUser is the process that serves the runtime extensions.
	ExtensionUser = "capstan:extension"
	// ControllerManagerUser is kube-controller-manager; Kubernetes prescribes the name.
	ControllerManagerUser = "system:kube-controller-manager"
)

// controllerManagerLifetime is the minimum lifetime of kube-controller-manager's certificate, because that process
// checks its files only every five minutes.
const controllerManagerLifetime = 20 * time.Minute

// Plane is everything that the management plane needs to authenticate itself and others.
type Plane struct {
	// EtcdCA signs the certificates of etcd and its client; CA signs all others.
	CA, EtcdCA Pair
	// APIServer is the API server's serving certificate, EtcdClient its client certificate for etcd.
	APIServer, EtcdClient Pair
	// Etcd is etcd's certificate, as a server and as its own peer.
	Etcd Pair
	// Webhook is the serving certificate of the webhooks in the manager.
	Webhook Pair
	// ExtensionServer is the serving certificate of the runtime extensions, RuntimeClient the manager's client
	// certificate for them.
	ExtensionServer, RuntimeClient Pair
	// Admin, Manager, ControllerManager and Extension are clients of the API server.
	Admin, Manager, ControllerManager, Extension Pair
	// ServiceAccounts signs the tokens of service accounts. It is kept as long as an authority: a new key would
	// invalidate all tokens at once, and agents could not renew theirs.
	ServiceAccounts Pair
}

// local are the names at which a process of the plane is reached on its own machine.
var local = []string{"localhost", "127.0.0.1"}

// Ensure returns the certificates of the plane and creates missing ones. hosts are additional names and addresses of
// the API server.
func Ensure(directory Directory, hosts []string) (*Plane, error) {
	p := &Plane{}
	for name, pair := range map[string]*Pair{"ca": &p.CA, "etcd-ca": &p.EtcdCA, "service-accounts": &p.ServiceAccounts} {
		var err error
		if *pair, err = directory.Authority(name); err != nil {
			return nil, err
		}
	}
	apiHosts := slices.Concat(local, []string{
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	}, hosts)
	for _, want := range []struct {
		into *Pair
		ca   Pair
		leaf Leaf
	}{
		{&p.APIServer, p.CA, Leaf{Name: "apiserver", CommonName: "kube-apiserver", Hosts: unique(apiHosts)}},
		{&p.Webhook, p.CA, Leaf{Name: "webhook", CommonName: "capstan-webhook", Hosts: local}},
		{&p.ExtensionServer, p.CA, Leaf{Name: "extension-server", CommonName: "capstan-extension", Hosts: local}},
		{&p.RuntimeClient, p.CA, Leaf{Name: "runtime-client", CommonName: "capstan:runtime-client", Client: true}},
		{&p.Admin, p.CA, Leaf{Name: "admin", CommonName: AdminUser, Groups: []string{AdminGroup}, Client: true}},
		{&p.Manager, p.CA, Leaf{Name: "manager", CommonName: ManagerUser, Client: true}},
		{&p.Extension, p.CA, Leaf{Name: "extension", CommonName: ExtensionUser, Client: true}},
		{&p.ControllerManager, p.CA, Leaf{Name: "controller-manager", CommonName: ControllerManagerUser, Client: true,
			AtLeast: controllerManagerLifetime}},
		{&p.Etcd, p.EtcdCA, Leaf{Name: "etcd", CommonName: "etcd", Hosts: local, Client: true}},
		{&p.EtcdClient, p.EtcdCA, Leaf{Name: "etcd-client", CommonName: "kube-apiserver", Client: true}},
	} {
		var err error
		if *want.into, err = directory.Leaf(want.ca, want.leaf); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Ends returns when the first leaf and when the first authority expires.
func (p *Plane) Ends() (leaf, authority time.Time) {
	return first(p.APIServer, p.EtcdClient, p.Etcd, p.Webhook, p.ExtensionServer, p.RuntimeClient, p.Admin, p.Manager,
		p.ControllerManager, p.Extension), first(p.CA, p.EtcdCA, p.ServiceAccounts)
}

// Renewed returns the names of the leaves that differ from those in old.
func (p *Plane) Renewed(old *Plane) []string {
	var names []string
	for _, pair := range [][2]Pair{
		{p.APIServer, old.APIServer}, {p.EtcdClient, old.EtcdClient}, {p.Etcd, old.Etcd},
		{p.Webhook, old.Webhook},
		{p.ExtensionServer, old.ExtensionServer}, {p.RuntimeClient, old.RuntimeClient}, {p.Admin, old.Admin},
		{p.Manager, old.Manager}, {p.ControllerManager, old.ControllerManager}, {p.Extension, old.Extension},
	} {
		if !pair[0].parsed.Equal(pair[1].parsed) {
			names = append(names, strings.TrimSuffix(filepath.Base(pair[0].CertFile), ".crt"))
		}
	}
	return names
}

// first returns when the first of the certificates expires.
func first(pairs ...Pair) time.Time {
	end := pairs[0].parsed.NotAfter
	for _, pair := range pairs[1:] {
		if pair.parsed.NotAfter.Before(end) {
			end = pair.parsed.NotAfter
		}
	}
	return end
}

// Load returns the authority and the administrator's certificate of an existing plane, for creating kubeconfigs; it
// creates nothing.
func Load(directory Directory) (*Plane, error) {
	p := &Plane{}
	for name, pair := range map[string]*Pair{"ca": &p.CA, "admin": &p.Admin} {
		var err error
		if *pair, err = directory.load(name); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// unique returns the values in order, without duplicates.
func unique(values []string) []string {
	var out []string
	for _, v := range values {
		if v != "" && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}
