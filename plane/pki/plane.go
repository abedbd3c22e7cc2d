package pki

import (
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Identities of the clients of the plane's API server.
const (
	// AdminUser is who the user's kubeconfig says; its group may do everything.
	AdminUser  = "capstan:admin"
	AdminGroup = "system:masters"
	// ManagerUser is the process that runs all controllers.
	ManagerUser = "capstan:manager"
	// ExtensionUser is the process that serves the runtime extensions.
	ExtensionUser = "capstan:extension"
	// ControllerManagerUser is kube-controller-manager, which Kubernetes knows by this name.
	ControllerManagerUser = "system:kube-controller-manager"
)

// controllerManagerLifetime is the shortest life of kube-controller-manager's certificate: it looks every five minutes
// whether its files have changed.
const controllerManagerLifetime = 20 * time.Minute

// Plane is everything the management plane needs to prove who it is and to know others.
type Plane struct {
	// CA signs servers and clients of the API server; EtcdCA those of etcd.
	CA, EtcdCA Pair
	// APIServer is the API server's serving certificate, EtcdClient what it shows to etcd.
	APIServer, EtcdClient Pair
	// Etcd is etcd's certificate, as a server and as a peer of itself.
	Etcd Pair
	// Webhook is the serving certificate of the webhooks in the manager.
	Webhook Pair
	// ExtensionServer is the serving certificate of the runtime extensions; RuntimeClient is what the manager shows to
	// them.
	ExtensionServer, RuntimeClient Pair
	// Admin, Manager, ControllerManager and Extension are clients of the API server.
	Admin, Manager, ControllerManager, Extension Pair
	// ServiceAccounts signs the tokens of service accounts. It is kept as long as an authority: a new key would end all
	// tokens at once, and with them the agents that renew theirs by the one they have.
	ServiceAccounts Pair
}

// local are the names by which a process of the plane is called on its own machine.
var local = []string{"localhost", "127.0.0.1"}

// Ensure returns the certificates of the plane and makes what is missing. hosts are further names and addresses of the
// API server.
func Ensure(folder Folder, hosts []string) (*Plane, error) {
	p := &Plane{}
	for name, pair := range map[string]*Pair{"ca": &p.CA, "etcd-ca": &p.EtcdCA, "service-accounts": &p.ServiceAccounts} {
		var err error
		if *pair, err = folder.Authority(name); err != nil {
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
		if *want.into, err = folder.Leaf(want.ca, want.leaf); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Ends returns when the first leaf ends, and when the first authority does.
func (p *Plane) Ends() (leaf, authority time.Time) {
	return first(p.APIServer, p.EtcdClient, p.Etcd, p.Webhook, p.ExtensionServer, p.RuntimeClient, p.Admin, p.Manager,
		p.ControllerManager, p.Extension), first(p.CA, p.EtcdCA, p.ServiceAccounts)
}

// Renewed returns the names of the leaves that differ from those of an earlier time.
func (p *Plane) Renewed(before *Plane) []string {
	var names []string
	for _, pair := range [][2]Pair{
		{p.APIServer, before.APIServer}, {p.EtcdClient, before.EtcdClient}, {p.Etcd, before.Etcd},
		{p.Webhook, before.Webhook},
		{p.ExtensionServer, before.ExtensionServer}, {p.RuntimeClient, before.RuntimeClient}, {p.Admin, before.Admin},
		{p.Manager, before.Manager}, {p.ControllerManager, before.ControllerManager}, {p.Extension, before.Extension},
	} {
		if !pair[0].parsed.Equal(pair[1].parsed) {
			names = append(names, strings.TrimSuffix(filepath.Base(pair[0].CertFile), ".crt"))
		}
	}
	return names
}

// first returns when the first of some certificates ends.
func first(pairs ...Pair) time.Time {
	end := pairs[0].parsed.NotAfter
	for _, pair := range pairs[1:] {
		if pair.parsed.NotAfter.Before(end) {
			end = pair.parsed.NotAfter
		}
	}
	return end
}

// Load returns the authority and the administrator's certificate of a plane that exists, for making kubeconfigs; it
// makes nothing.
func Load(folder Folder) (*Plane, error) {
	p := &Plane{}
	for name, pair := range map[string]*Pair{"ca": &p.CA, "admin": &p.Admin} {
		var err error
		if *pair, err = folder.load(name); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// unique returns the values in their order, without repetitions.
func unique(values []string) []string {
	var out []string
	for _, v := range values {
		if v != "" && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}
