package bootstrap

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"os"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/agent/cloudconfig"
	"github.com/capstan-dev/capstan/agent/command"
	"github.com/capstan-dev/capstan/agent/etcdmember"
	"github.com/capstan-dev/capstan/agent/fault"
	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/agent/snapshot"
	"github.com/capstan-dev/capstan/internal/regular"
)

const (
	// resetLimit bounds "kubeadm reset".
	resetLimit = 3 * time.Minute
	// leaveLimit bounds leaving etcd; after a reboot, etcd must start first.
	leaveLimit = time.Minute
	// startLimit is how often a repeatedly interrupted command is started: the command itself may kill the agent.
	startLimit = 4
)

// recoverCommand prepares an interrupted command to be repeated.
func (b *Bootstrap) recoverCommand(ctx context.Context, c cloudconfig.Command, before journal.Step) (bool, error) {
	if err := command.EndMarked(ctx, before.Mark); err != nil {
		return false, fault.New(err, "processes of the interrupted command can't be stopped")
	}
	if writesSentinel(c) {
		if _, err := os.Stat(cloudconfig.Sentinel); err == nil {
			return true, nil
		}
	}
	if before.Starts >= startLimit {
		return false, fault.New(nil, "%s was interrupted %d times", describe(c), before.Starts)
	}
	if !isKubeadm(c) || !b.kubeadmRan() {
		return false, nil
	}
	b.Log.Printf("kubeadm was interrupted: undoing what it did, and repeating it")
	b.withdraw(ctx)
	if err := Reset(ctx, b.Log, before.Mark); err != nil {
		return false, fault.New(err, "kubeadm reset, after kubeadm was interrupted")
	}
	if err := snapshot.Restore(b.snapshotDir()); err != nil {
		return false, fault.New(err, "the files that kubeadm reset deleted can't be restored")
	}
	return false, nil
}

// withdraw undoes what "kubeadm join" did in the cluster. "kubeadm reset" cleans only the host. But a new join is
// refused while etcd knows the host as a member with data, or while the cluster has a Ready node with its name. Errors
// are only logged, because the new join may work anyway.
func (b *Bootstrap) withdraw(ctx context.Context) {
	member, err := etcdmember.Find("/etc/kubernetes")
	if err == nil && member != nil {
		b.Log.Printf("leaving etcd")
		bounded, cancel := context.WithTimeout(ctx, leaveLimit)
		err = member.Leave(bounded)
		cancel()
	}
	if err != nil {
		b.Log.Printf("%v", err)
	}
	node, ok := nodeName("/var/lib/kubelet/pki/kubelet-client-current.pem")
	if !ok {
		return
	}
	// Otherwise the kubelet would report itself ready again.
	if err := b.systemctl(ctx, "stop", "kubelet"); err != nil {
		b.Log.Printf("%v", err)
	}
	config := "/etc/kubernetes/kubelet.conf"
	if _, err := os.Stat("/etc/kubernetes/admin.conf"); err == nil {
		config = "/etc/kubernetes/admin.conf" // on a control plane the kubelet talks to this host's own API server
	}
	notReady := command.Command{
		Args: []string{
			"kubectl", "--kubeconfig", config, "--request-timeout", "10s", "patch", "node", node, "--subresource",
			"status", "--patch",
			`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"JoinInterrupted","message":"kubeadm join was interrupted and is repeated"}]}}`,
		},
		Output: b.Log, Limit: 30 * time.Second,
	}
	if err := notReady.Run(ctx); err != nil {
		b.Log.Printf("%v", err)
	}
}

// nodeName returns the name under which the kubelet is registered, from its certificate. It returns false if the
// kubelet was never registered.
func nodeName(path string) (string, bool) {
	data, err := regular.Read(path, 1<<20)
	if err != nil {
		return "", false
	}
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return "", false
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return "", false
		}
		return strings.CutPrefix(cert.Subject.CommonName, "system:node:")
	}
}

// Reset runs "kubeadm reset" if kubeadm is installed.
func Reset(ctx context.Context, log *command.Log, mark string) error {
	if _, err := command.Find("kubeadm"); err != nil {
		return nil
	}
	log.Printf("+ kubeadm reset --force")
	return command.Command{
		Args: []string{"kubeadm", "reset", "--force"}, Output: log, Limit: resetLimit, Mark: mark,
	}.Run(ctx)
}
