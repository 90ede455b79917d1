//! A graph of followers like those of social networks: a Kronecker graph, made by the recursive
//! matrix method of the Graph500 benchmark, with the orientation of the study on transactions over
//! abstract data types.

use crate::random::Rng;

/// Probabilities of the quadrants of the adjacency matrix.
const QUADRANTS: [f64; 4] = [0.57, 0.19, 0.19, 0.05];

/// Who follows whom. Users are numbered from 0 without gaps.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Followers of each user, ascending.
    pub followers: Vec<Vec<u32>>,
}

impl Graph {
    /// Draws `edge_factor` links for each of `2^scale` possible users. Of a link's ends the one
    /// with the lower number is followed; links are counted once, and who has none is left out.
    pub fn kronecker(scale: u32, edge_factor: u32, rng: &mut Rng) -> Self {
        let mut edges: Vec<(u32, u32)> = (0..u64::from(edge_factor) << scale)
            .map(|_| edge(scale, rng))
            .filter(|(a, b)| a != b)
            .map(|(a, b)| (a.min(b), a.max(b)))
            .collect();
        edges.sort_unstable();
        edges.dedup();
        let mut users: Vec<u32> = edges.iter().flat_map(|edge| [edge.0, edge.1]).collect();
        users.sort_unstable();
        users.dedup();
        let mut numbers = vec![0; 1 << scale];
        users.iter().zip(0..).for_each(|(user, number)| numbers[*user as usize] = number);
        let mut followers = vec![Vec::new(); users.len()];
        for (followed, follower) in edges {
            followers[numbers[followed as usize] as usize].push(numbers[follower as usize]);
        }
        Self { followers }
    }

    /// How many users there are.
    pub fn users(&self) -> usize {
        self.followers.len()
    }

    /// How many links there are.
    pub fn links(&self) -> usize {
        self.followers.iter().map(Vec::len).sum()
    }

    /// Whom each user follows.
    pub fn following(&self) -> Vec<Vec<u32>> {
        let mut following = vec![Vec::new(); self.users()];
        for (user, followers) in self.followers.iter().enumerate() {
            followers.iter().for_each(|f| following[*f as usize].push(user as u32));
        }
        following
    }
}

/// Draws a link: a quadrant for each bit of the two numbers.
fn edge(scale: u32, rng: &mut Rng) -> (u32, u32) {
    let (mut a, mut b) = (0, 0);
    for _ in 0..scale {
        let quadrant = rng.weighted(&QUADRANTS) as u32;
        a = a << 1 | quadrant >> 1;
        b = b << 1 | quadrant & 1;
    }
    (a, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_graph_has_the_published_shape() {
        // Published for scale 16 and edge factor 8: 40,001 users, 478,985 links, 16,632 users
        // without followers, at most 6,278 followers of one user.
        let graph = Graph::kronecker(16, 8, &mut Rng::new(1));
        let near = |seen: usize, published: f64| {
            assert!((seen as f64 / published - 1.0).abs() < 0.03, "{seen}, not {published}");
        };
        near(graph.users(), 40_001.0);
        near(graph.links(), 478_985.0);
        near(graph.followers.iter().filter(|f| f.is_empty()).count(), 16_632.0);
        near(graph.followers.iter().map(Vec::len).max().unwrap_or(0), 6_278.0);
        assert_eq!(graph.following().iter().map(Vec::len).sum::<usize>(), graph.links());
    }
}
