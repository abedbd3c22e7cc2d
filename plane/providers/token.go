package providers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/internal/atomicfile"
)

// tokenLifetime is the lifetime of a token. A token is renewed after half of that time; clients read the file again
// every minute.
const tokenLifetime = time.Hour

// renew writes a token of the Deployment's ServiceAccount, and a kubeconfig for it, to the provider's directory, unless
// there is a token that is new enough.
func (r *reconciler) renew(ctx context.Context, d *appsv1.Deployment, dir string) error {
	s := setting{dir: dir} // only its paths are used
	switch info, err := os.Stat(s.token()); {
	case err == nil && time.Since(info.ModTime()) < tokenLifetime/2:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("looking at the token of the provider: %w", err)
	}
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(tokenLifetime / time.Second))},
	}
	owner := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: account(d)}}
	if err := r.SubResource("token").Create(ctx, owner, request); err != nil {
		return fmt.Errorf("asking for a token of ServiceAccount %s: %w", owner.Name, err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["plane"] = &clientcmdapi.Cluster{Server: r.Server, CertificateAuthorityData: r.CA}
	config.AuthInfos["provider"] = &clientcmdapi.AuthInfo{TokenFile: s.token()}
	config.Contexts["plane"] = &clientcmdapi.Context{Cluster: "plane", AuthInfo: "provider", Namespace: d.Namespace}
	config.CurrentContext = "plane"
	text, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encoding the kubeconfig of the provider: %w", err)
	}
	if err := atomicfile.Write(s.kubeconfig(), text, 0o600); err != nil {
		return err
	}
	return atomicfile.Write(s.token(), []byte(request.Status.Token), 0o600)
}
