import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { Node } from '../api/resources.js';
import { weaknessesOf } from './node-versions.js';

function node(name: string, kubeletVersion: string, containerRuntimeVersion: string): Node {
  const nodeInfo = Object({ kubeletVersion, containerRuntimeVersion });
  return { metadata: { name }, status: { nodeInfo } };
}

const isOld = (kubelet: string, runtime: string): boolean =>
  weaknessesOf([node('a', kubelet, runtime)]) !== null;

describe('the versions of nodes', () => {
  it('have known weaknesses below the first one without them of their line', () => {
    const [kubelet, runtime] = ['v1.31.2', 'containerd://2.2.0'];
    for (const fine of [
      'v1.19.15',
      'v1.20.11',
      'v1.21.5',
      'v1.22.2',
      'v1.22.10',
      'v1.23.0',
      'v1.31.3+k3s1',
      'v2.0.0',
    ])
      assert.equal(isOld(fine, runtime), false, fine);
    for (const old of [
      'v1.9.20',
      'v1.18.20',
      'v1.19.14',
      'v1.20.2',
      'v1.20.10',
      'v1.21.4',
      'v1.22.1',
      'v1.22.1-gke.5',
    ])
      assert.equal(isOld(old, runtime), true, old);
    for (const fine of [
      'containerd://1.7.29',
      'containerd://2.0.7',
      'containerd://2.1.5-k3s1',
      'containerd://2.3.0',
      'docker://28.5.2',
      'docker://29.1.0',
    ])
      assert.equal(isOld(kubelet, fine), false, fine);
    for (const old of [
      'containerd://1.6.40',
      'containerd://1.7.28',
      'containerd://2.0.6',
      'containerd://2.1.4-k3s1',
      'docker://20.10.24+dfsg1',
      'docker://28.5.1',
    ])
      assert.equal(isOld(kubelet, old), true, old);
  });

  it('are not judged where they say nothing that is known', () => {
    assert.equal(isOld('', ''), false);
    assert.equal(isOld('v1.31.2', 'cri-o://1.20.0'), false);
    assert.equal(weaknessesOf([{ metadata: { name: 'a' } }]), null);
  });

  it('are told for all nodes with the same ones together', () => {
    const nodes = [
      node('new', 'v1.31.2', 'containerd://2.2.0'),
      node('a', 'v1.20.2', 'docker://20.10.24'),
      node('b', 'v1.20.2', 'docker://20.10.24'),
      node('c', 'v1.31.2', 'containerd://1.7.2'),
    ];
    assert.match(
      weaknessesOf(nodes) ?? '',
      /at its node: containerd 1.7.2 of c; kubelet v1.20.2 and docker 20.10.24 of a and 1 more\. Upgrade/,
    );
  });
});
