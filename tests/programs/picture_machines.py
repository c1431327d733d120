"""Machines and clusters that nobody owns, as banyan_info reads them, in the shapes that pictures of them have to stand."""
# SPDX-License-Identifier: Apache-2.0

GIB = 1 << 30


class Node:
    """One node under construction; devices go to NUMA domains in turn."""

    def __init__(self, name, numas=2, cpus=16, packages=0):
        self.name, self.links, self.bus = name, [], 0x10
        self.parts = {'numa': [], 'pci': [], 'nvswitches': [], 'gpus': [], 'nics': []}
        self.packages = [{'name': f'package{i}', 'model': 'Processor 9000', 'cpus': self.cpus(i, packages, numas * cpus)}
                         for i in range(packages)]
        self.all_cpus = f'0-{numas * cpus - 1}' if numas else ''
        for i in range(numas):
            numa = {'name': f'numa{i}', 'index': i, 'memory': 64 * GIB, 'cpus': f'{i * cpus}-{(i + 1) * cpus - 1}'}
            if packages:
                numa['parent'] = f'package{i * packages // numas}'
            self.parts['numa'].append(numa)

    @staticmethod
    def cpus(i, parts, all_cpus):
        return f'{i * all_cpus // parts}-{(i + 1) * all_cpus // parts - 1}'

    def path(self, name):
        return f'{self.name}/{name}'

    def link(self, kind, one, other, rate, source='table', text=''):
        self.links.append({'from': self.path(one), 'to': self.path(other), 'kind': kind, 'GBps': rate, 'source': source, 'text': text})

    def device(self, kind, name, parent, rate=63.0, text='x16 32 GT/s', **more):
        self.bus += 1
        entry = {'name': name, 'bus_id': f'{self.bus >> 8:04x}:{self.bus & 255:02x}:00.0', **more}
        if parent:
            entry['parent'] = parent
        self.parts[kind].append(entry)
        self.link('pcie', name, parent or '', rate, 'hardware', text)
        if not parent:
            self.links[-1]['to'] = self.name
        return name

    def nic(self, name, parent, rate=50.0, ports=1, state='ACTIVE'):
        entry = [{'name': f'{name}:{i + 1}', 'index': i + 1, 'link_layer': 'InfiniBand', 'state': state, 'GBps': rate, 'source': 'hardware'}
                 for i in range(ports)]
        return self.device('nics', name, parent, ports=entry)

    def gpus(self, count, per_switch=1, nics=True, model='Accelerator 100'):
        """PCI switches with GPUs, and a NIC each, dealt to the NUMA domains."""
        numas = self.parts['numa']
        switches = -(-count // per_switch)
        for s in range(switches):
            home = numas[s * len(numas) // switches]['name'] if numas else None
            switch = self.device('pci', f'switch{s}', home)
            for g in range(s * per_switch, min(count, (s + 1) * per_switch)):
                self.device('gpus', f'gpu{g}', switch, index=g, model=model, memory=80 * GIB)
            if nics:
                self.nic(f'mlx5_{s}', switch)
        return self

    def mesh(self, kind, names, rate, text=''):
        for i, one in enumerate(names):
            for j, other in enumerate(names[:i]):
                figure = rate(j, i) if callable(rate) else rate
                if figure is None or figure > 0:
                    self.link(kind, other, one, figure, 'table', text)
        return self

    def numa_mesh(self, rate=22.0):
        return self.mesh('cpu_interconnect', [numa['name'] for numa in self.parts['numa']], rate)

    def gpu_names(self):
        return [gpu['name'] for gpu in self.parts['gpus']]

    def description(self):
        return {'name': self.name, 'cpus': {'set': self.all_cpus, 'packages': self.packages, 'caches': []}, **self.parts}


def cluster(nodes, switches=(), cables=(), name='cluster'):
    links = [link for node in nodes for link in node.links]
    links += [{'from': one, 'to': other, 'kind': 'network', 'GBps': rate, 'source': 'hardware'} for one, other, rate in cables]
    return {'schema': 1, 'name': name, 'nodes': [node.description() for node in nodes],
            'switches': [{'name': switch} for switch in switches],
            'links': [{'us': None, 'us_source': 'assumed', 'text': '', **link} for link in links],
            'levels': []}


def nvswitched(name, gpus, switches, rate=25.0):
    node = Node(name, packages=2).gpus(gpus, 2).numa_mesh()
    for s in range(switches):
        node.device('nvswitches', f'nvswitch{s}', 'numa0', rate=1.0, text='x1 2.5 GT/s')
        for gpu in node.gpu_names():
            node.link('nvlink', gpu, f'nvswitch{s}', rate, 'hardware', '1 x NVLink')
    return node


def fabric(pods, leaves, nodes, spines, cores=0, rate=50.0):
    """Pods of leaves and spines with nodes on all leaves of a pod or on one; cores join pods."""
    hosts, switches, cables = [], [f'core{c}' for c in range(cores)], []
    for p in range(pods):
        switches += [f'spine{p}-{s}' for s in range(spines)] + [f'leaf{p}-{leaf}' for leaf in range(leaves)]
        cables += [(f'spine{p}-{s}', f'core{c}', rate) for s in range(spines) for c in range(cores)]
        cables += [(f'leaf{p}-{leaf}', f'spine{p}-{s}', rate) for leaf in range(leaves) for s in range(spines)]
        for leaf in range(leaves):
            for n in range(nodes):
                host = Node(f'host{p}-{leaf}-{n}', numas=0)
                host.nic('mlx5_0', None)
                hosts.append(host)
                cables.append((f'{host.name}/mlx5_0:1', f'leaf{p}-{leaf}', rate))
    return cluster(hosts, switches, cables)


def rail_fabric(units, rails, nodes, uneven=False):
    """Every node has a NIC on each leaf of its unit."""
    hosts, switches, cables = [], [f'spine{s}' for s in range(rails)], []
    for u in range(units):
        switches += [f'leaf{u}-{r}' for r in range(rails)]
        cables += [(f'leaf{u}-{r}', f'spine{s}', 50.0) for r in range(rails) for s in range(rails)]
        for n in range(nodes - (u if uneven else 0)):
            host = Node(f'unit{u}-host{n:02}').gpus(rails)
            hosts.append(host)
            cables += [(f'{host.name}/mlx5_{r}:1', f'leaf{u}-{r}', 50.0) for r in range(rails)]
    return cluster(hosts, switches, cables)


def long_names():
    """256 bytes each, of letters that take much room, and what XML has to be told."""
    wide = Node('W' * 250, numas=2).numa_mesh()
    wide.parts['numa'][0]['name'] = 'numa <&"\'> ' + '\u6f22' * 60
    wide.device('gpus', 'gpu ' + '\U0001f333' * 40 + '<text><script>', None, model='M' * 256)
    wide.device('gpus', 'g' * 256, None, rate=None, model='two words ' * 20)
    wide.nic('@' * 250, None, rate=None)
    wide.links[0]['from'] = wide.path(wide.parts['numa'][0]['name'])
    return cluster([wide], ['S' * 256, 's w i t c h ' * 20], [('S' * 256, 's w i t c h ' * 20, 1e9)], name='a cluster of ' * 15)


def hybrid(i, j):
    """Eight GPUs in two groups of four, and each with its counterpart."""
    return 50.0 if (i ^ j) in (1, 2) else 25.0 if (i ^ j) in (3, 4) else 0


def irregular():
    nodes = [Node(f'big{i}', packages=2).gpus(8).numa_mesh() for i in range(2)]
    nodes += [Node('middle', packages=1).gpus(4), Node('small', numas=1).gpus(2, model='Accelerator 50'), Node('empty', numas=0)]
    return cluster(nodes)


def ports_and_partitions():
    node = Node('node', numas=1)
    node.nic('mlx5_0', 'numa0', ports=2)
    node.nic('mlx5_1', 'numa0', state='DOWN', rate=None)
    node.device('gpus', 'gpu0', 'numa0', partitions=[{'name': f'mig{i}', 'model': '1g.10gb', 'memory': 10 * GIB} for i in range(7)])
    node.device('pci', 'empty switch', 'numa0', rate=7.9, text='x8 8 GT/s')
    node.links.append({'from': 'node', 'to': 'node', 'kind': 'shm', 'GBps': 7.25, 'source': 'measured', 'us': 0.35})
    return cluster([node])


def superchip():
    node = Node('node', numas=4).numa_mesh(None)
    for g in range(4):
        node.device('gpus', f'gpu{g}', f'numa{g}', model='GH')
        node.link('c2c', f'gpu{g}', f'numa{g}', 450.0)
    return cluster([node.mesh('nvlink', node.gpu_names(), 150.0)])


def machines():
    mesh = Node('node').gpus(8).numa_mesh()
    mesh.mesh('xgmi', mesh.gpu_names(), 48.0)
    cube = Node('node').gpus(8, 2).numa_mesh()
    cube.mesh('nvlink', cube.gpu_names(), hybrid)
    many = Node('node', numas=8, packages=2).gpus(64, 4).numa_mesh()
    many.mesh('nvlink', many.gpu_names(), 25.0)
    odd = Node('node', numas=4, packages=2).gpus(40, 3).numa_mesh(lambda i, j: 10.0 + i + j)
    for i, gpu in enumerate(odd.parts['gpus']):
        gpu['model'] = f'Accelerator {i}'
    odd.mesh('nvlink', odd.gpu_names(), lambda i, j: float((i * j) % 9))
    table = Node('node', numas=1).gpus(16, 16)
    table.mesh('nvlink', table.gpu_names(), lambda i, j: 25.0 * ((i + j) % 3))
    deep = Node('node', numas=1)
    for level in range(40):
        deep.device('pci', f'switch{level}', f'switch{level - 1}' if level else 'numa0')
        deep.device('gpus', f'gpu{level}', f'switch{level}', model=f'Accelerator {level}')
    bare = Node('node', numas=0)
    for g in range(11):
        bare.device('gpus', f'gpu{g}', None, rate=31.5 if g % 2 else 15.8)
    bare.link('nvlink', 'gpu0', 'gpu9', 100.0)
    bridged = Node('node').gpus(8, 4, nics=False).numa_mesh()
    for g in range(0, 8, 2):
        bridged.link('nvlink', f'gpu{g}', f'gpu{g + 1}', 56.25)
    return {
        'mesh of 8': cluster([mesh]), 'cube mesh of 8': cluster([cube]), 'switch of 16': cluster([nvswitched('node', 16, 12)]),
        'NUMA domains with NICs': cluster([Node('node', numas=4, packages=2).gpus(4).numa_mesh()]),
        'processors': cluster([Node('host', numas=1)]), 'no processors': cluster([bare]), 'bridges': cluster([bridged]),
        'many NUMA domains': cluster([Node('node', numas=48, packages=8).numa_mesh(lambda i, j: 10.0 if i // 6 == j // 6 else None)]),
        'one NIC': cluster([Node('node', numas=1).gpus(1)]), '64 GPUs': cluster([many]), '40 unlike GPUs': cluster([odd]),
        'a wide table': cluster([table]), 'deep switches': cluster([deep]),
        'ports and partitions': ports_and_partitions(), 'superchip': superchip(), 'long names': long_names(),
        '16 alike': cluster([Node(f'node-{i}').gpus(8).numa_mesh() for i in range(16)]), 'irregular': irregular(),
        '40 without a network': cluster([Node(f'node-{i}', numas=1).gpus(i % 3 + 1) for i in range(40)]),
        'two tiers': fabric(1, 8, 16, 4), 'three tiers': fabric(6, 4, 8, 2, 4), 'three tiers of few': fabric(2, 2, 3, 2, 2),
        'rails': rail_fabric(4, 8, 8), 'uneven rails': rail_fabric(5, 4, 9, uneven=True),
        'a node on a leaf': cluster([Node('node').gpus(2)], ['leaf'], [('node/mlx5_0:1', 'leaf', 50.0), ('node/mlx5_1:1', 'leaf', None)]),
        'leaves of every size': cluster([Node(f'n{i}-{j}', numas=0) for i in range(60) for j in range(i)],
                                        ['spine', *(f'leaf{i}' for i in range(60))],
                                        [(f'leaf{i}', 'spine', None) for i in range(60)] +
                                        [(f'n{i}-{j}', f'leaf{i}', None) for i in range(60) for j in range(i)]),
        'a torus of switches': cluster([Node(f'n{i}', numas=0) for i in range(12)], [f's{i}' for i in range(13)],
                                       [(f's{i}', f's{(i + 1) % 12}', 25.0) for i in range(12)] +
                                       [(f'n{i}', f's{i}', 25.0) for i in range(12)]),
        'nothing': cluster([]),
    }
