package upstream

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/cluster-api/test/framework"
)

// plane is the management cluster. Its clusters are in a separate network, which this process reaches through relays on
// 127.0.0.1; capstan writes kubeconfigs for these.
type plane struct {
	framework.ClusterProxy
}

// relayTimeout limits the wait for a cluster's kubeconfig.
const relayTimeout = 3 * time.Minute

// GetWorkloadCluster returns a proxy that reaches a cluster through its relay.
func (p *plane) GetWorkloadCluster(ctx context.Context, namespace, name string,
	options ...framework.Option,
) framework.ClusterProxy {
	GinkgoHelper()
	var text []byte
	Eventually(func() error {
		var errs bytes.Buffer
		cmd := exec.CommandContext(ctx, *capstan, "cluster", "kubeconfig", name, "-n", namespace)
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			return &exec.Error{Name: errs.String(), Err: err}
		}
		text = out
		return nil
	}, relayTimeout, time.Second).Should(Succeed(), "Failed to get the kubeconfig of %s/%s", namespace, name)
	dir, err := os.MkdirTemp("", "workload-")
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(dir, "kubeconfig")
	Expect(os.WriteFile(path, text, 0o600)).To(Succeed())
	return framework.NewClusterProxy(name, path, p.GetScheme(), options...)
}
