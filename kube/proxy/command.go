// Package proxy is kube-proxy on local hosts: the upstream program, with settings for its host, capstan-nft as its nft
// command, and the routes to other Nodes' pods (package network/routes).
package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-proxy/app"

	"github.com/capstan-dev/capstan/kube/network/routes"
)

// runDir is the directory of the configuration that kube-proxy reads.
const runDir = "/run/kube-proxy"

// NewCommand returns kube-proxy. Without --config it behaves exactly as upstream's.
func NewCommand() *cobra.Command {
	cmd := app.NewProxyCommand()
	upstream := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		file, err := cmd.Flags().GetString("config")
		if err != nil || file == "" {
			return upstream(cmd, args)
		}
		if err := findNft(); err != nil {
			return err
		}
		c, err := copyConfig(file, runDir)
		if err != nil {
			return err
		}
		if err := cmd.Flags().Set("config", c.to); err != nil {
			return fmt.Errorf("passing on the configuration: %w", err)
		}
		node, err := nodeName(cmd)
		if err != nil {
			return err
		}
		ended := make(chan error, 2)
		go c.follow(followEvery)
		go func() { ended <- keepRoutes(context.Background(), c.settings, node) }()
		go func() { ended <- upstream(cmd, args) }()
		return <-ended
	}
	return cmd
}

// findNft puts this program's directory, which also contains the nft program, first on kube-proxy's PATH.
func findNft() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	return os.Setenv("PATH", filepath.Dir(self)+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// nodeName returns the name that kube-proxy uses for its Node.
func nodeName(cmd *cobra.Command) (string, error) {
	name, err := cmd.Flags().GetString("hostname-override")
	if err != nil || name == "" {
		name, err = os.Hostname()
	}
	return strings.ToLower(strings.TrimSpace(name)), err
}

// keepRoutes maintains the routes to pods of other Nodes. It returns only if it can't begin.
func keepRoutes(ctx context.Context, s settings, node string) error {
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of kube-proxy: %w", err)
	}
	config.UserAgent = "capstan-routes"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client for routes: %w", err)
	}
	return routes.Run(ctx, client, node, routes.Options{Pods: s.pods, Log: slog.New(logHandler())})
}

// followEvery is the interval of checks for a changed configuration.
const followEvery = 10 * time.Second

// follow copies the configuration again when it changes. kube-proxy notices that and exits, and the kubelet restarts
// it.
func (c *config) follow(every time.Duration) {
	for range time.Tick(every) {
		if err := c.again(); err != nil {
			klog.ErrorS(err, "Looking for changes of the configuration")
		}
	}
}

func prefixes(list string) (all []netip.Prefix, err error) {
	for text := range strings.SplitSeq(list, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("reading clusterCIDR: %w", err)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}
