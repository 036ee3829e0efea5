package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// sandbox is where one pod's commands run. Its end is the end of everything
// that runs in it.
type sandbox struct {
	name cache.ObjectName
	uid  types.UID
	// dir holds a folder for each container, the working directory of its
	// commands.
	dir    string
	ctx    context.Context
	cancel context.CancelFunc
	work   *sync.WaitGroup
}

// sandboxes holds the pods of the node.
type sandboxes struct {
	ctx  context.Context
	dir  string
	work sync.WaitGroup

	mutex sync.Mutex
	pods  map[cache.ObjectName]*sandbox
}

func newSandboxes(ctx context.Context, dir string) *sandboxes {
	return &sandboxes{ctx: ctx, dir: dir, pods: map[cache.ObjectName]*sandbox{}}
}

// create is idempotent for one pod, and replaces a namesake that is gone.
func (s *sandboxes) create(pod *corev1.Pod) error {
	name := cache.MetaObjectToName(pod)
	if old := s.get(name); old != nil && old.uid != pod.UID {
		if err := s.remove(name); err != nil {
			return err
		}
	}
	dir := filepath.Join(s.dir, string(pod.UID))
	for _, container := range containerNames(pod) {
		if err := os.MkdirAll(filepath.Join(dir, container), 0o700); err != nil {
			return fmt.Errorf("create the folder of container %s: %w", container, err)
		}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.pods[name] == nil {
		ctx, cancel := context.WithCancel(s.ctx)
		s.pods[name] = &sandbox{name: name, uid: pod.UID, dir: dir, ctx: ctx, cancel: cancel, work: &s.work}
	}
	return nil
}

// get returns nil for an unknown pod.
func (s *sandboxes) get(name cache.ObjectName) *sandbox {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.pods[name]
}

func (s *sandboxes) remove(name cache.ObjectName) error {
	s.mutex.Lock()
	pod := s.pods[name]
	delete(s.pods, name)
	s.mutex.Unlock()
	if pod == nil {
		return nil
	}
	pod.cancel()
	return os.RemoveAll(pod.dir)
}

// wait returns when the commands of all pods have ended.
func (s *sandboxes) wait() {
	s.work.Wait()
}

func containerNames(pod *corev1.Pod) []string {
	var names []string
	for _, container := range pod.Spec.InitContainers {
		names = append(names, container.Name)
	}
	for _, container := range pod.Spec.Containers {
		names = append(names, container.Name)
	}
	for _, container := range pod.Spec.EphemeralContainers {
		names = append(names, container.Name)
	}
	return names
}
