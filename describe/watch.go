package describe

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/poll"
)

// Watch writes the tree of a cluster, with the time, whenever it changes. It returns nil when the cluster is gone or
// ctx is done.
func Watch(ctx context.Context, c client.Reader, cluster client.ObjectKey, w io.Writer) error {
	last := ""
	err := poll.Until(ctx, func() (bool, error) {
		objects, err := Read(ctx, c, cluster)
		if apierrors.IsNotFound(err) {
			_, err := fmt.Fprintf(w, "\ncluster %s is gone\n", cluster.Name)
			return true, err
		}
		if err != nil {
			return false, err
		}
		var tree strings.Builder
		if err := Write(&tree, Tree(objects)); err != nil {
			return true, err
		}
		if tree.String() == last {
			return false, nil
		}
		last = tree.String()
		_, err = fmt.Fprintf(w, "\n%s\n%s", time.Now().Format(time.TimeOnly), last)
		return err != nil, err
	})
	if ctx.Err() != nil {
		return nil // the user stopped it
	}
	return err
}
