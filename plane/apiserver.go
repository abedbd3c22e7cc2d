//go:build linux

package plane

import (
	"strconv"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/internal/process"
)

// admissionOff lists admission plugins that are enabled by default but check Pods, volumes, Ingresses and the like,
// which a management plane does not run. Each of these plugins would watch types that are never used.
var admissionOff = []string{
	"DefaultIngressClass", "DefaultStorageClass", "DefaultTolerationSeconds", "LimitRanger", "PersistentVolumeClaimResize",
	"PodSecurity",
	"PodTopologyLabels", "Priority", "ResourceQuota", "RuntimeClass", "ServiceAccount", "StorageObjectInUseProtection",
	"TaintNodesByCondition",
}

// apiServer returns the plane's API server.
func (p *plane) apiServer() process.Process {
	keys := p.PKI
	args := []string{
		"--bind-address=" + p.opts.Bind,
		"--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(p.Ports.APIServer),
		// No Service leads to this API server, because nothing runs in its cluster.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.231.240.0/24",
		"--etcd-servers=https://" + loopback(p.Ports.Etcd),
		"--etcd-cafile=" + keys.EtcdCA.CertFile,
		"--etcd-certfile=" + keys.EtcdClient.CertFile,
		"--etcd-keyfile=" + keys.EtcdClient.KeyFile,
		"--client-ca-file=" + keys.CA.CertFile,
		"--tls-cert-file=" + keys.APIServer.CertFile,
		"--tls-private-key-file=" + keys.APIServer.KeyFile,
		"--encryption-provider-config=" + p.encryption,
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + keys.ServiceAccounts.CertFile,
		"--service-account-signing-key-file=" + keys.ServiceAccounts.KeyFile,
		"--anonymous-auth=false",
		// No Node registers here, so there is nothing for the Node authorizer to decide.
		"--authorization-mode=RBAC",
		"--disable-admission-plugins=" + strings.Join(admissionOff, ","),
		"--profiling=false",
		"--allow-privileged=true",
	}
	args = append(args, p.audit()...)
	proc := p.child("apiserver", "kube-apiserver", args...)
	// The API server's heap is mostly schemas and caches: collecting twice as often costs little time and saves a third of
	// its memory.
	proc.Env = append(proc.Env, "GOGC=50")
	// When it is told to stop, the API server would wait for the agents' watches to end, but they end only when the
	// server exits. So it is killed after a second: it has no state of its own, and our own clients have already
	// stopped.
	proc.Grace = time.Second
	proc.Probe = probe(p.Server+"/livez/ping", keys.CA, keys.Admin)
	return proc
}
