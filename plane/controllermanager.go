//go:build linux

package plane

import (
	"path/filepath"
	"strings"

	"github.com/capstan-dev/capstan/internal/process"
)

// kubeControllers are the controllers of kube-controller-manager that an API without nodes needs: deletion of
// dependents and of namespaces, service accounts, and roles aggregated by label.
var kubeControllers = []string{
	"garbage-collector-controller",
	"namespace-controller",
	"serviceaccount-controller",
	"serviceaccount-token-controller",
	"clusterrole-aggregation-controller",
}

// controllerManager returns the plane's kube-controller-manager.
func (p *plane) controllerManager() process.Process {
	keys := p.PKI
	conf := filepath.Join(p.Dir, kcmKubeconfig)
	proc := p.child("controller-manager", "kube-controller-manager",
		"--kubeconfig="+conf,
		"--controllers="+strings.Join(kubeControllers, ","),
		// Only one kube-controller-manager runs, so it need not elect a leader.
		"--leader-elect=false",
		// Nothing uses the endpoints that it would serve.
		"--secure-port=0",
		"--root-ca-file="+keys.CA.CertFile,
		"--service-account-private-key-file="+keys.ServiceAccounts.KeyFile,
		"--profiling=false",
		"--kube-api-qps=100",
		"--kube-api-burst=200",
		"--concurrent-gc-syncs=5",
		"--concurrent-namespace-syncs=3",
	)
	proc.Env = append(proc.Env, "GOGC=50")
	return proc
}
