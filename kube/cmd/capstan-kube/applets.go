package main

import (
	"io"
	"os"
	_ "time/tzdata" // time zones of CronJobs, for machines without zoneinfo

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/etcdutl/v3/etcdutl"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's authentication plug-ins
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/capstan-dev/capstan/kube/cri"
	"github.com/capstan-dev/capstan/kube/kubelet"
	"github.com/capstan-dev/capstan/kube/metricsapi"
	"github.com/capstan-dev/capstan/kube/proxy"
	"github.com/capstan-dev/capstan/kube/tool"
)

// An applet is one program. It receives its arguments without its name, and returns its exit code.
type applet func(args []string, stdout, stderr io.Writer) int

// applets maps names to programs. init fills it because "versions" lists it.
var applets map[string]applet

func init() {
	applets = map[string]applet{
		"etcd":                    runEtcd,
		"etcdutl":                 component(newEtcdutl),
		"kube-apiserver":          component(apiserver.NewAPIServerCommand),
		"kube-controller-manager": component(controllermanager.NewControllerManagerCommand),
		"kube-scheduler":          component(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
		"kubelet":                 component(kubelet.NewCommand),
		"kube-proxy":              component(proxy.NewCommand),
		"kubeadm":                 runKubeadm,
		"kubectl":                 runKubectl,
		metricsapi.Name:           component(metricsapi.NewCommand),
		"versions":                runVersions,
	}
	applets["cri"] = runCRI
	for _, name := range []string{"mount", "umount", "cp", "losetup"} {
		applets[name] = func(args []string, stdout, stderr io.Writer) int { return tool.Run(name, args, stdout, stderr) }
	}
}

// component returns an applet that runs the cobra command of a Kubernetes component.
func component(command func() *cobra.Command) applet {
	return func([]string, io.Writer, io.Writer) int { return cli.Run(command()) }
}

func runCRI(args []string, _, stderr io.Writer) int {
	own := contents()
	return cri.Main(cri.Contents{
		Kubernetes: own.Kubernetes, CoreDNSTag: own.CoreDNSTag, PauseTag: own.PauseTag, Applets: own.Applets,
	}, args, stderr)
}

func runEtcd([]string, io.Writer, io.Writer) int {
	etcdmain.Main(os.Args)
	return 0
}

// newEtcdutl returns the part of etcd's offline tool that restores a snapshot; nothing here needs the rest.
func newEtcdutl() *cobra.Command {
	cmd := &cobra.Command{Use: "etcdutl", Short: "Work on the files of etcd"}
	cmd.PersistentFlags().StringVarP(&etcdutl.OutputFormat, "write-out", "w", "simple",
		"output format (fields, json, protobuf, simple, table)")
	cmd.AddCommand(etcdutl.NewSnapshotCommand(), etcdutl.NewVersionCommand())
	return cmd
}

func runKubectl([]string, io.Writer, io.Writer) int {
	logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
	return 0
}
