package controllers

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/kubeconfig"
)

// kubeconfigs reads the Secrets with which the cluster cache connects to workload clusters. The cache uses a kubeconfig
// as it is, so a kubeconfig that contains a command would make this process run that command. Anybody who may write
// Secrets in a namespace can write such a Secret, so Get rejects kubeconfigs that ask for more than a connection.
type kubeconfigs struct{ client.Reader }

// Get implements client.Reader.
func (k kubeconfigs) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption,
) error {
	if err := k.Reader.Get(ctx, key, object, opts...); err != nil {
		return err
	}
	s, ok := object.(*corev1.Secret)
	if !ok || !strings.HasSuffix(key.Name, "-"+string(secret.Kubeconfig)) {
		return nil
	}
	if _, err := kubeconfig.Read(s.Data[secret.KubeconfigDataName]); err != nil {
		s.Data = nil
		return fmt.Errorf("the kubeconfig in Secret %s is not used: %w", key, err)
	}
	return nil
}
