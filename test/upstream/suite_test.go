package upstream

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"sigs.k8s.io/cluster-api/test/e2e"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Flags of the suite; hack/upstream sets them.
var (
	configPath = flag.String("e2e.config", "", "path of the configuration")
	artifacts  = flag.String("e2e.artifacts", "", "directory for objects and logs")
	kubeconfig = flag.String("e2e.kubeconfig", "", "path of the plane's kubeconfig")
	capstan    = flag.String("e2e.capstan", "", "path of the capstan binary")
	home       = flag.String("e2e.home", "", "home directory of the plane")
)

// Variables that all specs share; BeforeSuite sets them.
var (
	// ctx is canceled at the first interrupt.
	ctx = interruptible()
	// config is upstream's configuration, with our providers and templates.
	config *clusterctl.E2EConfig
	// clusterctlConfig is the path of clusterctl's configuration, for the repository with our templates.
	clusterctlConfig string
	// bootstrap is the plane.
	bootstrap framework.ClusterProxy
)

// infrastructure is the provider whose templates the specs use.
const infrastructure = "capstan"

func interruptible() context.Context {
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt)
	return ctx
}

func TestUpstream(t *testing.T) {
	if *configPath == "" {
		t.Fatal("there is no configuration: run make test-upstream-e2e")
	}
	ctrl.SetLogger(klog.Background())
	RegisterFailHandler(Fail)
	RunSpecs(t, "Cluster API's specs on a plane of Capstan")
}

var _ = BeforeSuite(func() {
	config = clusterctl.LoadE2EConfig(ctx, clusterctl.LoadE2EConfigInput{ConfigPath: *configPath})
	repository := clusterctl.CreateRepositoryInput{
		E2EConfig: config, RepositoryFolder: filepath.Join(*artifacts, "repository"),
	}
	repository.RegisterClusterResourceSetConfigMapTransformation(config.MustGetVariable(e2e.CNIPath), e2e.CNIResources)
	clusterctlConfig = clusterctl.CreateRepository(ctx, repository)
	scheme := runtime.NewScheme()
	framework.TryAddDefaultSchemes(scheme)
	bootstrap = &plane{ClusterProxy: framework.NewClusterProxy("bootstrap", *kubeconfig, scheme)}
	Expect(os.Setenv("CAPSTAN_HOME", *home)).To(Succeed())
	_, err := fmt.Fprintln(GinkgoWriter, "Kubernetes", config.MustGetVariable(e2e.KubernetesVersion))
	Expect(err).NotTo(HaveOccurred())
})
